"""Thought signatures on their way to a client and back.

The bridge seals a signature before it goes to the client: it adds a prefix with the model family that made
the signature. A signature that returns without the prefix, or from another family, is foreign. Gemini rejects
a whole request because of one foreign signature, so the bridge drops it.

Clients of Gemini's own API get signatures unsealed, as bytes that their SDKs decode. For them the signature
store records the family of each signature; a signature without a record counts as genuine. For clients that
drop unknown fields the signature store keeps signatures by call id. The last resort is Google's documented
dummy, on the first call of a step only: on parallel calls it makes newer models return nothing.
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

#: The store's key for records of families. It contains a space, so that it is never the name of a family.
_FAMILY_RECORDS = "made by"
_URL_SAFE = str.maketrans("-_", "+/")


class CallSignatures(Protocol):
    """Keeps the signatures of calls, for all workers and across restarts. It may lose entries; it never
    raises."""

    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        """Keep signatures by call id."""

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]: ...


def seal(signature: str, family: str) -> str:
    return _prefix(family) + signature


def _prefix(family: str) -> str:
    return f"{_SEAL}:{family.replace(':', '%3A')}:"


def unseal(sealed: str, family: str) -> str | None:
    prefix = _prefix(family)
    return sealed[len(prefix) :] if sealed.startswith(prefix) else None


def unseal_contents(contents: Iterable[Content], family: str) -> list[Content]:
    """The contents with this family's signatures unsealed and all others removed."""
    return [_unseal_content(content, family) for content in contents]


def remember_family(family: str, signatures: Iterable[str], store: CallSignatures) -> None:
    made = {_digest(signature): family for signature in signatures}
    if made:
        store.keep(_FAMILY_RECORDS, made)


def drop_foreign_signatures(contents: Sequence[Content], family: str, store: CallSignatures) -> list[Content]:
    """The contents of a native client, without signatures that another family is known to have made."""
    present = dict.fromkeys(
        part.signature for content in contents for part in content.parts if part.signature
    )
    digests = {signature: _digest(signature) for signature in present if signature}
    makers = store.find(_FAMILY_RECORDS, digests.values()) if digests else {}
    foreign = {each for each, digest in digests.items() if makers.get(digest, family) != family}
    return [_drop_signatures(content, foreign) for content in contents] if foreign else list(contents)


def _digest(signature: str) -> str:
    """A digest that does not depend on the Base64 alphabet: SDKs decode a signature and may encode it in the
    other."""
    return sha256(signature.translate(_URL_SAFE).rstrip("=").encode()).hexdigest()[:32]


def _drop_signatures(content: Content, foreign: Container[str]) -> Content:
    kept = tuple(
        replace(part, signature=None) if part.signature and part.signature in foreign else part
        for part in content.parts
    )
    return replace(content, parts=kept)


def add_signatures(
    contents: Sequence[Content], family: str, *, required: bool, store: CallSignatures
) -> tuple[Content, ...]:
    """Add signatures from the store to calls without one, or the dummy if the model requires a signature."""
    lacking = [call.id for content in contents if (call := _unsigned_call(content)) and call.id]
    kept = store.find(family, lacking) if lacking else {}
    fallback = DUMMY if required else None
    if not kept and fallback is None:
        return tuple(contents)
    return tuple(_add_signature(content, kept, fallback) for content in contents)


def dummy_notes(before: Sequence[Content], after: Sequence[Content]) -> tuple[str, ...]:
    """One note for each call that got the dummy. Gemini then continues without its earlier thoughts."""
    changed = ((old, new) for old, new in zip(before, after, strict=True) if new is not old)
    return (DUMMY_NOTE,) * sum(_count_dummies(new) - _count_dummies(old) for old, new in changed)


def _count_dummies(content: Content) -> int:
    return sum(part.signature == DUMMY for part in content.parts)


def _unseal_content(content: Content, family: str) -> Content:
    if all(part.signature is None for part in content.parts):
        return content
    return replace(content, parts=tuple(_unseal_part(part, family) for part in content.parts))


def _unseal_part(part: Part, family: str) -> Part:
    return part if part.signature is None else replace(part, signature=unseal(part.signature, family))


def _unsigned_call(content: Content) -> FunctionCall | None:
    """The first call of a model turn, if it has no signature."""
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


def _add_signature(content: Content, kept: Mapping[str, str], fallback: str | None) -> Content:
    call = _unsigned_call(content)
    if call is None:
        return content
    signature = kept.get(call.id or "", None if _has_signed_thought(content) else fallback)
    parts = [
        Part(call, part.thought, signature, part.extra) if part.data is call else part
        for part in content.parts
    ]
    return Content(content.role, tuple(parts), content.extra)
