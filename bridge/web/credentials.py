"""The key that a request carries, wherever the client's vendor has it put."""

from __future__ import annotations

from flask import Request

_HEADERS = ("X-Api-Key", "X-Goog-Api-Key")


def shown_keys(request: Request) -> list[str]:
    """In the order in which they are believed. Of several that a client sends one may be meant for others."""
    candidates = [
        _token(request.headers.get("Authorization", "")),
        *(request.headers.get(name, "") for name in _HEADERS),
        request.args.get("key", ""),
    ]
    return list(dict.fromkeys(text.strip() for text in candidates if text.strip()))


def _token(authorization: str) -> str:
    scheme, _, token = authorization.strip().partition(" ")
    return token if scheme.lower() == "bearer" else authorization
