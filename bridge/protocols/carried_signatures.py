"""Where signatures ride in a protocol that signs only thinking.

A call has no place for one there, so the thinking directly before it carries it, marked as belonging to the
call that follows. The thinking's own signature goes unmarked; if it is that of the last part alone, a mark
says how much of the text that part is, since a signed part must never be joined with another.
"""

from __future__ import annotations

import re

from bridge.gemini.types import Part

_NEXT = "next:"
_END = re.compile(r"end(\d{1,9}):")


def for_next_call(signature: str) -> str:
    return _NEXT + signature


def for_thought(signature: str, signed: int, whole: int) -> str:
    """`signed` of the `whole` number of characters are the signed part's, the last ones."""
    return signature if signed == whole else f"end{signed}:{signature}"


def read_thought(text: str, signature: str) -> tuple[list[Part], str | None]:
    """The parts of the thinking itself, and the signature of the call behind it."""
    if signature.startswith(_NEXT):
        return _thought(text, None), signature.removeprefix(_NEXT)
    end = _END.match(signature)
    if end is None:
        return _thought(text, signature or None), None
    before = max(0, len(text) - int(end[1]))
    return [*_thought(text[:before], None), *_thought(text[before:], signature[end.end() :])], None


def _thought(text: str, signature: str | None) -> list[Part]:
    return [Part(text, thought=True, signature=signature)] if text or signature else []
