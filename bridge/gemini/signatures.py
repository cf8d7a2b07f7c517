"""Thought signatures on their way through a client and back.

A signature goes to the client sealed: a prefix says that it is ours and which model family made it. What
comes back without that prefix, or from another family, is foreign, and Gemini rejects the whole request over
one foreign signature; so it is dropped. Clients that speak Gemini themselves get theirs unsealed, as bytes
that their SDKs decode; there the vault remembers which family made which, and one that nobody remembers is
taken for good. Clients that drop unknown fields are served from a vault keyed by call id. The last resort is
Google's documented dummy, on the first call of a step only: on parallel calls it makes newer models fall
silent.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Protocol

from bridge.gemini.types import MODEL, Content, FunctionCall, Part

_SEAL = "gb1"
DUMMY = "skip_thought_signature_validator"
DUMMY_NOTE = "signatures.dummy"

#: The vault's shelf for who made a signature; a family's name has no blanks.
_MAKERS = "made by"
_URL_SAFE = str.maketrans("-_", "+/")


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


def remember_maker(family: str, signatures: Iterable[str], vault: Vault) -> None:
    made = {_digest(signature): family for signature in signatures}
    if made:
        vault.keep(_MAKERS, made)


def without_foreign(contents: Sequence[Content], family: str, vault: Vault) -> list[Content]:
    """Signatures that left unsealed, and not those that another family is known to have made."""
    present = dict.fromkeys(
        part.signature for content in contents for part in content.parts if part.signature
    )
    digests = {signature: _digest(signature) for signature in present if signature}
    makers = vault.find(_MAKERS, digests.values()) if digests else {}
    foreign = {each for each, digest in digests.items() if makers.get(digest, family) != family}
    return [_without(content, foreign) for content in contents] if foreign else list(contents)


def _digest(signature: str) -> str:
    """Of what it says: SDKs decode it and write it anew, in the other of the two alphabets."""
    return sha256(signature.translate(_URL_SAFE).rstrip("=").encode()).hexdigest()[:32]


def _without(content: Content, foreign: Container[str]) -> Content:
    kept = tuple(
        replace(part, signature=None) if part.signature and part.signature in foreign else part
        for part in content.parts
    )
    return replace(content, parts=kept)


def signed(contents: Sequence[Content], family: str, *, required: bool, vault: Vault) -> tuple[Content, ...]:
    """Signatures from the vault for steps that lack one, or the dummy where the model insists."""
    lacking = [call.id for content in contents if (call := _unsigned_call(content)) and call.id]
    kept = vault.find(family, lacking) if lacking else {}
    fallback = DUMMY if required else None
    if not kept and fallback is None:
        return tuple(contents)
    return tuple(_signed(content, kept, fallback) for content in contents)


def dummy_notes(before: Sequence[Content], after: Sequence[Content]) -> tuple[str, ...]:
    """One for each call that got the dummy: Gemini goes on from there without what it had thought."""
    changed = ((old, new) for old, new in zip(before, after, strict=True) if new is not old)
    return (DUMMY_NOTE,) * sum(_dummies(new) - _dummies(old) for old, new in changed)


def _dummies(content: Content) -> int:
    return sum(part.signature == DUMMY for part in content.parts)


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
    parts = [
        Part(call, part.thought, signature, part.extra) if part.data is call else part
        for part in content.parts
    ]
    return Content(content.role, tuple(parts), content.extra)
