"""Where a call's signature rides in a protocol that signs only thinking.

A call has no place for it there, so the thinking directly before it carries it, marked as belonging to the
call that follows. The thinking's own signature goes unmarked.
"""

from __future__ import annotations

_NEXT = "next:"


def for_next_call(signature: str) -> str:
    return _NEXT + signature


def read_signature(signature: str) -> tuple[str | None, str | None]:
    """The signature of the thinking itself, and that of the call behind it."""
    if signature.startswith(_NEXT):
        return None, signature.removeprefix(_NEXT)
    return signature or None, None
