"""Thought signatures of the pretend model: opaque to everybody else, recognisable to itself."""

from __future__ import annotations

import base64
import binascii
import hashlib

#: Google's own begin with 0x12 too; a few hundred bytes is what they usually weigh.
_ORIGIN = b"\x12gemini-bridge-demo\x00"
_NOISE = 350

#: What Google lets a client send instead of a signature it has lost, as it is or in base64.
_DUMMIES = (b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go")
DUMMIES = frozenset(text for dummy in _DUMMIES for text in (dummy.decode(), base64.b64encode(dummy).decode()))


def mint(seed: bytes) -> str:
    return base64.b64encode(_ORIGIN + hashlib.shake_256(seed).digest(_NOISE)).decode()


def decoded(signature: str) -> bytes | None:
    """Its bytes, in either alphabet of base64; None if it is in neither."""
    try:
        return base64.b64decode(signature.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None


def is_ours(signature: str) -> bool:
    return (decoded(signature) or b"").startswith(_ORIGIN)
