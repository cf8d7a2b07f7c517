"""Chunks to native events, which are the chunks themselves, and events to the whole answer.

The Turn follows the answer as it does for every protocol and judges whether it came to an end. Which end that
was stands in the chunks, in the client's own words. Google sends no last event: at `end` the body closes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, ClassVar

from bridge.errors import BridgeError, UpstreamMalformed
from bridge.gemini.finish import Outcome
from bridge.gemini.turn import Closed, Ended, Grew, Opened
from bridge.gemini.types import Chunk
from bridge.gemini.wire import chunk_to_json
from bridge.protocols.base import Event, EventMachine, Transitions
from bridge.protocols.gemini_native.fold import fold_chunks
from bridge.protocols.google_errors import error_body

CHUNK, ERROR, END = "chunk", "error", "end"


class State(Enum):
    IDLE = auto()  #: nothing sent
    OPEN = auto()
    DONE = auto()
    FAILED = auto()


class NativeMachine(EventMachine):
    START = State.IDLE
    MOST_CANDIDATES = 8
    KNOWS_REASONS = True
    LEGAL: ClassVar[Transitions] = {
        State.IDLE: {CHUNK: State.OPEN, ERROR: State.FAILED},
        State.OPEN: {CHUNK: State.OPEN, END: State.DONE, ERROR: State.FAILED},
        State.DONE: {},
        State.FAILED: {},
    }

    def feed(self, chunks: Iterable[Chunk]) -> list[Event]:
        return [self._told(chunk) for chunk in chunks]

    def _told(self, chunk: Chunk) -> Event:
        self._turn.feed(chunk)  # its steps say nothing that the chunk does not
        event = Event(CHUNK, chunk_to_json(chunk))
        self._pass(event)
        return event

    def on_opened(self, _step: Opened) -> Iterable[Event]:
        return ()

    def on_grew(self, _step: Grew) -> Iterable[Event]:
        return ()

    def on_closed(self, _step: Closed) -> Iterable[Event]:
        return ()

    def on_ended(self, step: Ended) -> Iterable[Event]:
        if any(ending.outcome is Outcome.BROKEN and not ending.called for ending in step.endings):
            self.handed_on = UpstreamMalformed("Gemini's answer is broken; its finish reason says how")
        return (Event(END, None),)

    def on_failed(self, error: BridgeError) -> Iterable[Event]:
        return (Event(ERROR, error_body(error)),)

    def fold(self, events: Iterable[Event]) -> dict[str, Any]:
        return fold_chunks(event.data for event in events if event.type == CHUNK)
