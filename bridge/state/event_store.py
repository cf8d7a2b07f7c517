"""Events of background answers that are streamed, so that every worker can send them again.

The events of an answer have positions 0, 1, 2, … They are stored in batches of encoded server-sent events. An
empty line ends each event, and an event contains no other empty line.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from bridge.state.store import Store

END_OF_EVENT = b"\n\n"
MOST_BATCHES = 64  #: batches that one call of `read` returns


class EventBatch(NamedTuple):
    first: int  #: the position of the first event
    length: int  #: the number of events
    data: bytes  #: the encoded events, one after the other
    last: bool = False  #: whether the answer ends with this batch

    @property
    def end(self) -> int:
        """The position after the last event."""
        return self.first + self.length

    def since(self, position: int) -> bytes:
        """The encoded events from this position on."""
        if position <= self.first:
            return self.data
        skipped = min(position - self.first, self.length)
        return self.data.split(END_OF_EVENT, skipped)[-1]


class EventStore(Store):
    """An owner finds only its own events. Events expire like stored answers, and all events of an answer
    expire together."""

    @abstractmethod
    def append(self, owner: str, answer_id: str, batch: EventBatch) -> None:
        """Store a batch. It replaces a batch with the same first position, so a failed call can be repeated
        with more events. An empty first batch announces that the answer has events."""

    @abstractmethod
    def exists(self, owner: str, answer_id: str) -> bool:
        """Whether a batch was stored for this answer, even an empty one."""

    @abstractmethod
    def read(self, owner: str, answer_id: str, position: int) -> list[EventBatch]:
        """The next batches with events from this position on, in order; the last batch of an answer is always
        among them when no other batch follows. Returns at most MOST_BATCHES."""

    @abstractmethod
    def forget(self, owner: str, answer_id: str) -> None:
        """Delete all events of an answer."""
