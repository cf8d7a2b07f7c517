"""Passes chunks on as native events, and merges events to the whole answer.

The Turn detects whether the answer is complete, as for every protocol. The chunks themselves contain the
finish reason. Google sends no last event: at `end` the body closes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, ClassVar

from bridge.errors import BridgeError, UpstreamMalformed
from bridge.gemini.finish import Outcome
from bridge.gemini.turn import RunClosed, RunOpened, TextAdded, TurnEnded
from bridge.gemini.types import Chunk
from bridge.gemini.wire import chunk_to_json
from bridge.protocols.base import Event, EventMachine, Transitions
from bridge.protocols.gemini_native.fold import fold_chunks
from bridge.protocols.google_errors import error_body

CHUNK, ERROR, END = "chunk", "error", "end"


class NativeState(Enum):
    IDLE = auto()  #: nothing sent
    OPEN = auto()
    DONE = auto()
    FAILED = auto()


class NativeMachine(EventMachine):
    START = NativeState.IDLE
    MAX_CANDIDATES = 8
    ANY_FINISH_REASON_ENDS = True
    LEGAL: ClassVar[Transitions] = {
        NativeState.IDLE: {CHUNK: NativeState.OPEN, ERROR: NativeState.FAILED},
        NativeState.OPEN: {CHUNK: NativeState.OPEN, END: NativeState.DONE, ERROR: NativeState.FAILED},
        NativeState.DONE: {},
        NativeState.FAILED: {},
    }

    def feed(self, chunks: Iterable[Chunk]) -> list[Event]:
        return [self._event(chunk) for chunk in chunks]

    def _event(self, chunk: Chunk) -> Event:
        self._turn.feed(chunk)  # the steps are not needed: the chunk contains everything
        event = Event(CHUNK, chunk_to_json(chunk))
        self._advance(event)
        return event

    def on_run_opened(self, _step: RunOpened) -> Iterable[Event]:
        return ()

    def on_text_added(self, _step: TextAdded) -> Iterable[Event]:
        return ()

    def on_run_closed(self, _step: RunClosed) -> Iterable[Event]:
        return ()

    def on_turn_ended(self, step: TurnEnded) -> Iterable[Event]:
        if any(ending.outcome is Outcome.BROKEN and not ending.called for ending in step.endings):
            self.error_in_answer = UpstreamMalformed("Gemini's answer is broken; its finish reason says how")
        return (Event(END, None),)

    def on_turn_failed(self, error: BridgeError) -> Iterable[Event]:
        return (Event(ERROR, error_body(error)),)

    def fold(self, events: Iterable[Event]) -> dict[str, Any]:
        return fold_chunks(event.data for event in events if event.type == CHUNK)
