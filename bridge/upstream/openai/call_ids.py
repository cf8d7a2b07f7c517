"""The ids of calls in a history: stable ones for calls that have none, and the form that a server accepts."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from string import ascii_letters, digits

#: From the id in the history to the id that is sent. It is the same in each request.
CallId = Callable[[str], str]

_ALPHABET = digits + ascii_letters
_NINE = re.compile(r"[a-zA-Z0-9]{9}")


def keep_id(call_id: str) -> str:
    return call_id


def nine_characters(call_id: str) -> str:
    """Mistral accepts nothing else. Its own ids have this form, so they stay."""
    if _NINE.fullmatch(call_id):
        return call_id
    number = int.from_bytes(sha256(call_id.encode("utf-8", "replace")).digest())
    characters = []
    for _ in range(9):
        number, place = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[place])
    return "".join(characters)
