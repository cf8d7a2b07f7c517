"""Carries the signatures of calls in protocols that have a signature field only for thinking.

The thinking block directly before a call carries the call's signature, with a prefix that marks it. The
signature of the thinking itself has no prefix. If it covers only the last part of the text, a prefix holds
the length of that part, since a signed part must never be joined with another.
"""

from __future__ import annotations

import re

from bridge.gemini.types import Part

_NEXT = "next:"
_END = re.compile(r"end(\d{1,9}):")


def for_next_call(signature: str) -> str:
    return _NEXT + signature


def for_thought(signature: str, signed: int, whole: int) -> str:
    """The signature of the last `signed` of `whole` characters of a thinking text."""
    return signature if signed == whole else f"end{signed}:{signature}"


def read_thought(text: str, signature: str) -> tuple[list[Part], str | None]:
    """The parts of the thinking, and the signature of the call that follows it."""
    if signature.startswith(_NEXT):
        return _thought(text, None), signature.removeprefix(_NEXT)
    end = _END.match(signature)
    if end is None:
        return _thought(text, signature or None), None
    before = max(0, len(text) - int(end[1]))
    return [*_thought(text[:before], None), *_thought(text[before:], signature[end.end() :])], None


def _thought(text: str, signature: str | None) -> list[Part]:
    return [Part(text, thought=True, signature=signature)] if text or signature else []
