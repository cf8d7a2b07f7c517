"""Thought signatures on their way through a client and back.

A signature goes to the client sealed: a prefix says that it is ours and which model family made it. What
comes back without that prefix, or from another family, is foreign, and Gemini rejects the whole request over
one foreign signature; so it is dropped. Clients that drop unknown fields are served from a vault keyed by
call id. The last resort is Google's documented dummy, on the first call of a step only: on parallel calls it
makes newer models fall silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from bridge.gemini.types import MODEL, Content, FunctionCall, Part

_SEAL = "gb1"
DUMMY = "skip_thought_signature_validator"


class Vault(Protocol):
    """Keeps signatures of calls for all workers and across restarts. It may forget; it never fails."""

    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        """Signatures by call id."""

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]: ...


def seal(signature: str, family: str) -> str:
    return _prefix(family) + signature


def _prefix(family: str) -> str:
    return f"{_SEAL}:{family.replace(':', '%3A')}:"


def unseal(sealed: str, family: str) -> str | None:
    prefix = _prefix(family)
    return sealed[len(prefix) :] if sealed.startswith(prefix) else None


def unsealed(contents: Iterable[Content], family: str) -> list[Content]:
    """Gemini's own signatures as it made them, and no others: it checks one wherever it stands."""
    return [_unsealed(content, family) for content in contents]


def signed(contents: Sequence[Content], family: str, *, required: bool, vault: Vault) -> tuple[Content, ...]:
    """Signatures from the vault for steps that lack one, or the dummy where the model insists."""
    lacking = [call.id for content in contents if (call := _unsigned_call(content)) and call.id]
    kept = vault.find(family, lacking) if lacking else {}
    fallback = DUMMY if required else None
    return tuple(_signed(content, kept, fallback) for content in contents)


def _unsealed(content: Content, family: str) -> Content:
    if all(part.signature is None for part in content.parts):
        return content
    return replace(content, parts=tuple(_unsealed_part(part, family) for part in content.parts))


def _unsealed_part(part: Part, family: str) -> Part:
    return part if part.signature is None else replace(part, signature=unseal(part.signature, family))


def _unsigned_call(content: Content) -> FunctionCall | None:
    """The first call of a model turn, if it is not signed."""
    for part in content.parts if content.role == MODEL else ():
        if isinstance(part.data, FunctionCall):
            return None if part.signature else part.data
    return None


def _has_signed_thought(content: Content) -> bool:
    """Gemini may sign the thought before a call instead of the call."""
    for part in content.parts:
        if isinstance(part.data, FunctionCall):
            return False
        if part.thought and part.signature:
            return True
    return False


def _signed(content: Content, kept: Mapping[str, str], fallback: str | None) -> Content:
    call = _unsigned_call(content)
    if call is None:
        return content
    signature = kept.get(call.id or "", None if _has_signed_thought(content) else fallback)
    return replace(
        content,
        parts=tuple(
            replace(part, signature=signature) if part.data is call else part for part in content.parts
        ),
    )
