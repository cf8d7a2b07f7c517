"""Whose stored answers are whose: by the key that was sent, which itself is kept nowhere."""

from __future__ import annotations

from hashlib import sha256

from werkzeug.datastructures import Headers

_KEY_HEADERS = ("Authorization", "X-Api-Key", "X-Goog-Api-Key")


def owner_of(headers: Headers) -> str:
    key = next((headers[name] for name in _KEY_HEADERS if name in headers), "")
    return sha256(key.removeprefix("Bearer ").encode()).hexdigest()
