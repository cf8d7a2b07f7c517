"""Steps of the Turn to events of the Interactions API.

The last event tells how the answer ended, and not the answer again: the fold of the events is the whole. A
signature that has no place of its own rides in a thought step, as `signatures.py` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any, ClassVar

import orjson

from bridge.errors import BridgeError
from bridge.gemini.finish import Outcome
from bridge.gemini.model_adapter import GENERATED_ID_PREFIX
from bridge.gemini.turn import (
    MetadataReceived,
    PartSigned,
    RunClosed,
    RunKind,
    RunOpened,
    TextAdded,
    TurnEnded,
    TurnStarted,
)
from bridge.gemini.types import (
    FileData,
    FunctionCall,
    InlineData,
    JsonObject,
    OtherData,
    Part,
)
from bridge.ids_and_clock import IdsAndClock
from bridge.protocols.base import ConvertedRequest, Event, EventMachine, StreamFraming, Transitions
from bridge.protocols.carried_signatures import for_next_call, for_thought
from bridge.protocols.gemini_interactions.contents import media_content
from bridge.protocols.gemini_interactions.executed_code import code_step, is_told_in_full
from bridge.protocols.gemini_interactions.fold import STEP_DELTA, STEP_START, STEP_STOP, StepFold
from bridge.protocols.gemini_interactions.grounded import citations, search_steps
from bridge.protocols.gemini_interactions.signatures import for_part, for_text, written
from bridge.protocols.gemini_interactions.usage import usage_from_gemini
from bridge.protocols.google_errors import RPC_CODES
from bridge.protocols.sse import encode_named

CREATED, UPDATED, COMPLETED = "interaction.created", "interaction.status_update", "interaction.completed"
ERROR, DONE = "error", "done"
ID_PREFIX = "v1_"  #: as Google's ids begin
THOUGHT, OUTPUT = "thought", "model_output"
END = b"event: done\ndata: [DONE]\n\n"


class InteractionsState(Enum):
    IDLE = auto()  #: nothing sent
    CREATED = auto()
    OPEN = auto()  #: between steps
    STEP = auto()  #: inside a step
    ENDING = auto()  #: how it ended is told
    DONE = auto()


@dataclass(frozen=True, slots=True)
class InteractionOptions:
    thoughts: bool = False  #: the client wants summaries of them
    previous: str | None = None  #: the id of the interaction that it goes on from


class InteractionsMachine(EventMachine):
    START = InteractionsState.IDLE
    LEGAL: ClassVar[Transitions] = {
        InteractionsState.IDLE: {CREATED: InteractionsState.CREATED, ERROR: InteractionsState.ENDING},
        InteractionsState.CREATED: {UPDATED: InteractionsState.OPEN, ERROR: InteractionsState.ENDING},
        InteractionsState.OPEN: {
            STEP_START: InteractionsState.STEP,
            COMPLETED: InteractionsState.ENDING,
            ERROR: InteractionsState.ENDING,
        },
        InteractionsState.STEP: {
            STEP_DELTA: InteractionsState.STEP,
            STEP_STOP: InteractionsState.OPEN,
            ERROR: InteractionsState.ENDING,
        },
        InteractionsState.ENDING: {DONE: InteractionsState.DONE},
        InteractionsState.DONE: {},
    }

    def __init__(self, converted: ConvertedRequest, ids_and_clock: IdsAndClock) -> None:
        super().__init__(converted, ids_and_clock)
        options = converted.options
        self._options = options if isinstance(options, InteractionOptions) else InteractionOptions()
        self._told = 0  # events
        self._index = -1  # of the newest step
        self._open: str | None = None  # the type of the step being told
        self._thought_length = 0  # of the thought step being told
        self._code_id = ""  # of the code that was run last, where Gemini gives it none
        self._said = StepFold()
        self._grounding: JsonObject | None = None
        self._uncited: JsonObject | None = None  # the same, until a text was told with it
        now, previous = self._now(), self._options.previous
        self._interaction: dict[str, Any] = {
            "id": ids_and_clock.new_id(ID_PREFIX),
            "object": "interaction",
            "status": "in_progress",
            "model": converted.request.model,
            "created": now,
            "updated": now,
            **({} if previous is None else {"previous_interaction_id": previous}),
        }
        self.pending = {**self._interaction, "steps": []}

    def _now(self) -> str:
        return datetime.fromtimestamp(self.ids_and_clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    # --- events --------------------------------------------------------------------------------------

    def _event(self, kind: str, **data: Any) -> Event:
        self._told += 1
        event = Event(kind, {**data, "event_type": kind, "event_id": str(self._told)})
        self._said.add(event)
        return event

    def _delta(self, **delta: Any) -> Event:
        return self._event(STEP_DELTA, index=self._index, delta=delta)

    def _begin(self, **step: Any) -> Iterator[Event]:
        yield from self._end_step()
        self._index += 1
        self._open = step["type"]
        yield self._event(STEP_START, index=self._index, step=step)

    def _end_step(self) -> Iterator[Event]:
        if self._open is not None:
            self._open, self._thought_length = None, 0
            yield self._event(STEP_STOP, index=self._index)

    def _whole(self, step: Mapping[str, Any], delta: Mapping[str, Any]) -> Iterator[Event]:
        yield from self._begin(**step)
        yield self._delta(**delta)
        yield from self._end_step()

    # --- thoughts ------------------------------------------------------------------------------------

    def _think(self, text: str) -> Iterator[Event]:
        if self._open != THOUGHT:
            yield from self._begin(type=THOUGHT)
        self._thought_length += len(text)
        yield self._delta(type="thought_summary", content={"type": "text", "text": text})

    def _sign(self, signature: str) -> Iterator[Event]:
        """In the thought step being told, else in one of its own; nothing more may come into either."""
        if self._open != THOUGHT:
            yield from self._begin(type=THOUGHT)
        yield self._delta(type="thought_signature", signature=written(signature))
        yield from self._end_step()

    # --- steps ---------------------------------------------------------------------------------------

    def on_turn_started(self, _step: TurnStarted) -> Iterator[Event]:
        yield self._event(CREATED, interaction=self._interaction)
        yield self._event(UPDATED, interaction_id=self._interaction["id"], status="in_progress")

    def on_run_opened(self, step: RunOpened) -> Iterator[Event]:
        if step.kind is RunKind.THOUGHT:
            if not self._options.thoughts:
                self.losses.append("interactions.thought_not_asked_for")
        elif step.kind is RunKind.TEXT:
            yield from self._end_step()
        elif step.part is not None and isinstance(step.part.data, FunctionCall):
            yield from self._call(step.part.data, step.part.signature)
        elif step.part is not None:
            yield from self._other(step.part)

    def _call(self, call: FunctionCall, signature: str | None) -> Iterator[Event]:
        if signature is not None:
            yield from self._sign(for_next_call(signature))
        step: dict[str, Any] = {"type": "function_call", "id": call.id, "name": call.name, "arguments": {}}
        arguments = orjson.dumps(dict(call.args or {})).decode()
        yield from self._whole(step, {"type": "arguments_delta", "arguments": arguments})

    def _other(self, part: Part) -> Iterator[Event]:
        if isinstance(part.data, InlineData | FileData):
            yield from self._whole({"type": OUTPUT}, media_content(part.data))
            if part.signature is not None:
                yield from self._sign(for_part(part.signature))
        elif isinstance(part.data, OtherData):
            yield from self._code(part.data, part.signature)
        else:
            self.losses.append("interactions.part_not_shown")

    def _code(self, data: OtherData, signature: str | None) -> Iterator[Event]:
        if data.field == "executableCode":
            self._code_id = self.ids_and_clock.new_id(GENERATED_ID_PREFIX)
        told = code_step(data, self._code_id)
        if told is None:
            self.losses.append("interactions.part_not_shown")
            return
        if not is_told_in_full(data):
            self.losses.append("interactions.code_outcome")
        step, delta = told
        yield from self._whole(
            step, delta if signature is None else {**delta, "signature": written(signature)}
        )

    def on_text_added(self, step: TextAdded) -> Iterable[Event]:
        if step.kind is RunKind.THOUGHT:
            return self._think(step.text) if self._options.thoughts else ()
        if self._open == OUTPUT:
            return (self._text(step.text),)
        return (*self._begin(type=OUTPUT), self._text(step.text))

    def _text(self, text: str) -> Event:
        """As `_delta` would tell it, and sooner: nearly every event is one of these."""
        self._told += 1
        self._said.say(text)
        data = {
            "index": self._index,
            "delta": {"type": "text", "text": text},
            "event_type": STEP_DELTA,
            "event_id": str(self._told),
        }
        return Event(STEP_DELTA, data)

    def on_part_signed(self, step: PartSigned) -> Iterator[Event]:
        if step.kind is RunKind.THOUGHT:
            length = step.length if self._options.thoughts else self._thought_length
            yield from self._sign(for_thought(step.signature, length, self._thought_length))
        elif step.kind is RunKind.TEXT:
            yield from self._end_output()
            yield from self._sign(for_text(step.signature, step.length))
        # That of a call or another part was told with it.

    def on_run_closed(self, step: RunClosed) -> Iterator[Event]:
        # A thought stays open: the call that follows may want to sign it.
        if any(part.extra for part in step.parts):
            self.losses.append("interactions.part_fields")
        if step.kind is RunKind.TEXT:
            yield from self._end_output()

    def _end_output(self) -> Iterator[Event]:
        if self._open != OUTPUT:
            return
        uncited, self._uncited = self._uncited, None  # else it would be told again with every text
        if cited := citations(uncited):
            yield self._delta(type="text_annotation_delta", annotations=cited)
        yield from self._end_step()

    def on_metadata(self, step: MetadataReceived) -> Iterable[Event]:
        if grounding := step.fields.get("groundingMetadata"):
            self._grounding = self._uncited = grounding
        return ()

    def on_turn_ended(self, step: TurnEnded) -> Iterator[Event]:
        yield from self._end_step()
        for told, delta in search_steps(self._grounding, self.ids_and_clock.new_id(GENERATED_ID_PREFIX)):
            yield from self._whole(told, delta)
        ending = step.endings[0]
        status = "completed" if ending.outcome is Outcome.COMPLETE else "incomplete"
        filtered = ending.outcome is Outcome.FILTERED and not ending.called
        reason = "".join(self.finish_reasons[:1])
        errors = [{"code": reason, "message": "Gemini's filter stopped this answer."}] if filtered else []
        yield self._event(
            COMPLETED, interaction=self._ended("requires_action" if ending.called else status, errors)
        )
        yield Event(DONE, None)

    def _ended(self, status: str, errors: list[dict[str, str]]) -> JsonObject:
        interaction = {
            **self._interaction,
            "status": status,
            "updated": self._now(),
            "usage": usage_from_gemini(self.usage),
            **({"errors": errors} if errors else {}),
        }
        self.answer = {**interaction, "steps": self._said.steps}
        return interaction

    def on_turn_failed(self, error: BridgeError) -> Iterator[Event]:
        self._ended("failed", [told := error_from(error)])
        yield self._event(ERROR, error=told)
        yield Event(DONE, None)

    def fold(self, events: Iterable[Event]) -> JsonObject:
        said, interaction = StepFold(), {}
        for event in events:
            said.add(event)
            if event.type == COMPLETED:
                interaction = event.data["interaction"]
        return {**interaction, "steps": said.steps}


def error_from(error: BridgeError) -> dict[str, str]:
    return {"code": RPC_CODES[error.kind].status, "message": error.message}


def framing(_converted: ConvertedRequest) -> StreamFraming:
    return StreamFraming(lambda event: END if event.type == DONE else encode_named(event))
