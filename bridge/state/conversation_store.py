"""Conversations that clients create and name: their metadata and items, kept by id and owner.

A conversation expires when no request used it for the lifetime of stored answers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bridge.state.store import Store


@dataclass(frozen=True, slots=True)
class KeptConversation:
    id: str
    created: int  #: seconds since 1970
    metadata: dict[str, str]


class ConversationStore(Store):
    """An owner finds only its own conversations. Every item has an `id`."""

    @abstractmethod
    def create(self, owner: str, conversation: KeptConversation, items: Sequence[dict[str, Any]]) -> None: ...

    @abstractmethod
    def find(self, owner: str, conversation_id: str) -> KeptConversation | None: ...

    @abstractmethod
    def update(self, owner: str, conversation_id: str, metadata: dict[str, str]) -> bool:
        """Replace the metadata; false if there is no such conversation."""

    @abstractmethod
    def append(self, owner: str, conversation_id: str, items: Sequence[dict[str, Any]]) -> bool:
        """Add items at the end, all or none; false if there is no such conversation. An item whose id the
        conversation already has is not added again."""

    @abstractmethod
    def size(self, owner: str, conversation_id: str) -> int | None:
        """The bytes of all items; None if there is no such conversation."""

    @abstractmethod
    def items(self, owner: str, conversation_id: str) -> list[dict[str, Any]]:
        """All items, the oldest first; empty if there is no such conversation."""

    @abstractmethod
    def forget_item(self, owner: str, conversation_id: str, item_id: str) -> bool:
        """Delete an item; false if the conversation has no such item."""

    @abstractmethod
    def forget(self, owner: str, conversation_id: str) -> bool:
        """Delete a conversation with its items; false if there is no such conversation."""
