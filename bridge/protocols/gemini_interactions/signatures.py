"""Encodes thought signatures in thought steps, since the Interactions API has no other field for most of
them.

The signatures of a thought and of the call after it are encoded as in every protocol that signs only
thinking. The signature of a text or an image is sent in a thought step after it, with a prefix that says what
it signs. All are written in Base64, since Google's field holds bytes: some SDKs decode and encode it again.
"""

from __future__ import annotations

import base64
import binascii
import re

_TEXT = re.compile(r"text(\d{1,9}):")
_PART = "part:"


def encode(signature: str) -> str:
    return base64.b64encode(signature.encode()).decode()


def decode(given: str) -> str:
    """The decoded signature. Anything else stays unchanged; it is foreign and will be dropped."""
    unpadded = given.rstrip("=")  # some clients omit the padding
    try:
        return base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return given


def for_text(signature: str, length: int) -> str:
    """The signature of the last `length` characters of the text before this step."""
    return f"text{length}:{signature}"


def for_part(signature: str) -> str:
    """The signature of the part before this step, which is not a text."""
    return _PART + signature


def text_signed(signature: str) -> tuple[int, str] | None:
    """The number of signed characters of the text before, and the signature."""
    found = _TEXT.match(signature)
    return None if found is None else (int(found[1]), signature[found.end() :])


def part_signed(signature: str) -> str | None:
    return signature.removeprefix(_PART) if signature.startswith(_PART) else None
