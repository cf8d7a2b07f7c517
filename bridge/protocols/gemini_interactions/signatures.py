"""Thought signatures in thought steps: the Interactions API has no other place for most of them.

A thought's own signature and that of the call behind it ride as in every protocol that signs only thinking.
The signature of a text or of an image rides in a thought step behind it, with a mark that says what it signs.
All are written in Base64, since Google's field holds bytes, and some SDKs decode it and write it anew.
"""

from __future__ import annotations

import base64
import binascii
import re

_TEXT = re.compile(r"text(\d{1,9}):")
_PART = "part:"


def written(signature: str) -> str:
    return base64.b64encode(signature.encode()).decode()


def read(given: str) -> str:
    """What was written. Anything else stays as it is: it is foreign, and will be dropped as such."""
    unpadded = given.rstrip("=")  # some write it without the padding
    try:
        return base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return given


def for_text(signature: str, length: int) -> str:
    """Of the text before, whose last `length` characters are the signed part."""
    return f"text{length}:{signature}"


def for_part(signature: str) -> str:
    """Of the part before, which is no text."""
    return _PART + signature


def text_signed(signature: str) -> tuple[int, str] | None:
    """How many characters of the text before are signed, and the signature."""
    found = _TEXT.match(signature)
    return None if found is None else (int(found[1]), signature[found.end() :])


def part_signed(signature: str) -> str | None:
    return signature.removeprefix(_PART) if signature.startswith(_PART) else None
