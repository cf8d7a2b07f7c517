"""Thought signatures of the demo model: opaque to clients, recognised by the demo model."""

from __future__ import annotations

import base64
import binascii
import hashlib

#: Google's signatures begin with 0x12 too, and usually have a few hundred bytes.
_ORIGIN = b"\x12gemini-bridge-demo\x00"
_NOISE = 350

#: Google accepts these instead of a lost signature, as plain text or in base64.
_DUMMIES = (b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go")
DUMMIES = frozenset(text for dummy in _DUMMIES for text in (dummy.decode(), base64.b64encode(dummy).decode()))


def mint(seed: bytes) -> str:
    return base64.b64encode(_ORIGIN + hashlib.shake_256(seed).digest(_NOISE)).decode()


def decoded(signature: str) -> bytes | None:
    """The bytes, from either alphabet of base64; None if it is not base64."""
    try:
        return base64.b64decode(signature.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None


def is_ours(signature: str) -> bool:
    return (decoded(signature) or b"").startswith(_ORIGIN)
