"""Thought signatures, for all workers and across restarts.

Clients may drop the signatures of a conversation. The store brings them back. A lost signature costs a little
quality, and a failed request costs the whole turn; so a store that fails logs it and finds nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bridge.state.store import Store


@dataclass(frozen=True, slots=True)
class OwnerSignatures:
    """The signatures of one owner."""

    store: SignatureStore
    owner: str

    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        self.store.keep(self.owner, family, signatures)

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        return self.store.find(self.owner, family, call_ids)


class SignatureStore(Store):
    """An owner finds only its own signatures: call ids are not secret, and clients choose the ids they send.
    No method raises StorageError."""

    def of(self, owner: str) -> OwnerSignatures:
        return OwnerSignatures(self, owner)

    @abstractmethod
    def keep(self, owner: str, family: str, signatures: Mapping[str, str]) -> None:
        """Store signatures by call id. `family` is the model family that made them."""

    @abstractmethod
    def find(self, owner: str, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        """The known signatures of all these calls, however many. A call that is signed in one request and
        not in the next would change the part of the history that Gemini has cached."""
