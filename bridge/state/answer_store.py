"""Stored answers: kept by id and owner, for a limited time and within a limited size.

Each entry holds one turn: the question, the answer, and the id of the turn before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from bridge.state.store import Store

#: A longer chain does not fit into any context window.
LONGEST_CHAIN = 1000

#: Called with the number of bytes that are about to be loaded. It may refuse by raising an error.
Admit = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    id: str
    previous: str | None
    idle: float  #: seconds since the answer was stored, updated or touched
    cancelled: bool
    question: list[dict[str, Any]]
    answer: dict[str, Any]


class Turn(NamedTuple):
    """A turn of a chain, without its contents."""

    id: str
    previous: str | None
    size: int  #: bytes


class Progress(NamedTuple):
    """What is known of an answer without its contents."""

    idle: float  #: seconds since the answer was stored, updated or touched
    cancelled: bool


class AnswerStore(Store):
    """An owner finds only its own answers."""

    @abstractmethod
    def keep(
        self,
        owner: str,
        answer: dict[str, Any],
        question: list[dict[str, Any]],
        previous: str | None,
        conversation: str = "",
    ) -> None: ...

    @abstractmethod
    def update(self, owner: str, answer: dict[str, Any]) -> bool:
        """Replace a kept answer; false if it was cancelled or deleted, then nothing is written."""

    @abstractmethod
    def find(self, owner: str, answer_id: str) -> KeptAnswer | None: ...

    @abstractmethod
    def progress(self, owner: str, answer_id: str) -> Progress | None:
        """Like `find`, without loading the contents."""

    @abstractmethod
    def size(self, owner: str, answer_id: str) -> int | None:
        """The bytes of a kept answer and its question; None if there is no such answer."""

    def items_beside(self, owner: str, item_id: str, admit: Admit) -> list[dict[str, Any]]:
        """All items of the stored answer that contains this item; empty if there is none."""
        size = self._size_beside(owner, item_id)
        if size is None:
            return []
        admit(size)
        answer = self._answer_beside(owner, item_id)
        items: list[dict[str, Any]] = [] if answer is None else orjson.loads(answer)["output"]
        return items

    @abstractmethod
    def _size_beside(self, owner: str, item_id: str) -> int | None:
        """The bytes of the stored answer that contains this item."""

    @abstractmethod
    def _answer_beside(self, owner: str, item_id: str) -> bytes | None:
        """The stored answer that contains this item, as JSON."""

    def chain(self, owner: str, answer_id: str, admit: Admit) -> list[KeptAnswer] | None:
        """This turn and the turns before it, the oldest first; None if one of them is missing. Each is read
        once, after `admit` accepted the size of all of them."""
        found = self._turns(owner, answer_id)
        if not found or (found[-1].previous is not None and len(found) < LONGEST_CHAIN):
            return None
        admit(sum(turn.size for turn in found))
        turns = [self.find(owner, turn.id) for turn in reversed(found)]
        whole = [turn for turn in turns if turn is not None]
        return whole if len(whole) == len(turns) else None

    @abstractmethod
    def _turns(self, owner: str, answer_id: str) -> list[Turn]:
        """This turn and those before it that are stored, the newest first; LONGEST_CHAIN at most."""

    @abstractmethod
    def conversation(self, answer_id: str) -> str:
        """The conversation of the answer; empty if it was not known when the answer was stored."""

    @abstractmethod
    def forget(self, owner: str, answer_id: str) -> bool:
        """Delete an answer; false if there is no such answer."""

    @abstractmethod
    def cancel(self, owner: str, answer_id: str) -> bool: ...

    @abstractmethod
    def touch(self, owner: str, answer_id: str) -> bool:
        """Mark an answer as still being worked on; false if it was cancelled or deleted."""
