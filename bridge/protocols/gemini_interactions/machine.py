"""Converts steps of the Turn to events of the Interactions API.

The last event contains the status but not the whole answer; the fold of the events builds it. A signature
without a field of its own is sent in a thought step, as `signatures.py` describes.
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
from bridge.protocols.gemini_interactions.executed_code import code_step, is_outcome_supported
from bridge.protocols.gemini_interactions.fold import STEP_DELTA, STEP_START, STEP_STOP, StepFold
from bridge.protocols.gemini_interactions.grounded import citations, search_steps
from bridge.protocols.gemini_interactions.hosted_calls import hosted_step
from bridge.protocols.gemini_interactions.signatures import encode, for_part, for_text
from bridge.protocols.gemini_interactions.usage import usage_from_gemini
from bridge.protocols.google_errors import RPC_CODES
from bridge.protocols.sse import encode_named

CREATED, UPDATED, COMPLETED = "interaction.created", "interaction.status_update", "interaction.completed"
ERROR, DONE = "error", "done"
ID_PREFIX = "v1_"  #: the prefix of Google's ids
THOUGHT, OUTPUT = "thought", "model_output"
END = b"event: done\ndata: [DONE]\n\n"


class InteractionsState(Enum):
    IDLE = auto()  #: nothing sent
    CREATED = auto()
    OPEN = auto()  #: between steps
    STEP = auto()  #: inside a step
    ENDING = auto()  #: the final status was sent
    DONE = auto()


@dataclass(frozen=True, slots=True)
class InteractionOptions:
    thoughts: bool = False  #: the client wants summaries of thoughts
    previous: str | None = None  #: the id of the interaction that it continues


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
        self._event_count = 0
        self._index = -1  # of the newest step
        self._open_step: str | None = None  # the type of the open step
        self._thought_length = 0  # characters of the open thought step
        self._code_id = ""  # generated id of the last executed code, if Gemini gave none
        self._fold = StepFold()
        self._grounding: JsonObject | None = None
        self._pending_citations: JsonObject | None = None  # the same, until a text carried its citations
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
        self._event_count += 1
        event = Event(kind, {**data, "event_type": kind, "event_id": str(self._event_count)})
        self._fold.add(event)
        return event

    def _delta(self, **delta: Any) -> Event:
        return self._event(STEP_DELTA, index=self._index, delta=delta)

    def _start_step(self, **step: Any) -> Iterator[Event]:
        yield from self._end_step()
        self._index += 1
        self._open_step = step["type"]
        yield self._event(STEP_START, index=self._index, step=step)

    def _end_step(self) -> Iterator[Event]:
        if self._open_step is not None:
            self._open_step, self._thought_length = None, 0
            yield self._event(STEP_STOP, index=self._index)

    def _complete_step(self, step: Mapping[str, Any], delta: Mapping[str, Any]) -> Iterator[Event]:
        yield from self._start_step(**step)
        yield self._delta(**delta)
        yield from self._end_step()

    # --- thoughts ------------------------------------------------------------------------------------

    def _think(self, text: str) -> Iterator[Event]:
        if self._open_step != THOUGHT:
            yield from self._start_step(type=THOUGHT)
        self._thought_length += len(text)
        yield self._delta(type="thought_summary", content={"type": "text", "text": text})

    def _sign(self, signature: str) -> Iterator[Event]:
        """Sign the open thought step, else a new one, and end the step: nothing may follow a signature."""
        if self._open_step != THOUGHT:
            yield from self._start_step(type=THOUGHT)
        yield self._delta(type="thought_signature", signature=encode(signature))
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
        yield from self._complete_step(step, {"type": "arguments_delta", "arguments": arguments})

    def _other(self, part: Part) -> Iterator[Event]:
        if isinstance(part.data, InlineData | FileData):
            yield from self._complete_step({"type": OUTPUT}, media_content(part.data))
            if part.signature is not None:
                yield from self._sign(for_part(part.signature))
        elif isinstance(part.data, OtherData):
            yield from self._code(part.data, part.signature)
        else:
            self.losses.append("interactions.part_not_shown")

    def _code(self, data: OtherData, signature: str | None) -> Iterator[Event]:
        if (hosted := hosted_step(data)) is not None:
            yield from self._complete_step(*hosted)
            return
        if data.field == "executableCode":
            self._code_id = self.ids_and_clock.new_id(GENERATED_ID_PREFIX)
        found = code_step(data, self._code_id)
        if found is None:
            self.losses.append("interactions.part_not_shown")
            return
        if not is_outcome_supported(data):
            self.losses.append("interactions.code_outcome")
        step, delta = found
        yield from self._complete_step(
            step, delta if signature is None else {**delta, "signature": encode(signature)}
        )

    def on_text_added(self, step: TextAdded) -> Iterable[Event]:
        if step.kind is RunKind.THOUGHT:
            return self._think(step.text) if self._options.thoughts else ()
        if self._open_step == OUTPUT:
            return (self._text(step.text),)
        return (*self._start_step(type=OUTPUT), self._text(step.text))

    def _text(self, text: str) -> Event:
        """A text delta. Faster than `_delta`, since nearly every event is one."""
        self._event_count += 1
        self._fold.add_text(text)
        data = {
            "index": self._index,
            "delta": {"type": "text", "text": text},
            "event_type": STEP_DELTA,
            "event_id": str(self._event_count),
        }
        return Event(STEP_DELTA, data)

    def on_part_signed(self, step: PartSigned) -> Iterator[Event]:
        if step.kind is RunKind.THOUGHT:
            length = step.length if self._options.thoughts else self._thought_length
            yield from self._sign(for_thought(step.signature, length, self._thought_length))
        elif step.kind is RunKind.TEXT:
            yield from self._end_output()
            yield from self._sign(for_text(step.signature, step.length))
        # The signature of a call or another part was sent with it.

    def on_run_closed(self, step: RunClosed) -> Iterator[Event]:
        # A thought stays open: the next call may need to sign it.
        if any(part.extra for part in step.parts):
            self.losses.append("interactions.part_fields")
        if step.kind is RunKind.TEXT:
            yield from self._end_output()

    def _end_output(self) -> Iterator[Event]:
        if self._open_step != OUTPUT:
            return
        # Reset it, so that later texts do not repeat the citations.
        grounding, self._pending_citations = self._pending_citations, None
        if cited := citations(grounding):
            yield self._delta(type="text_annotation_delta", annotations=cited)
        yield from self._end_step()

    def on_metadata(self, step: MetadataReceived) -> Iterable[Event]:
        if grounding := step.fields.get("groundingMetadata"):
            self._grounding = self._pending_citations = grounding
        return ()

    def on_turn_ended(self, step: TurnEnded) -> Iterator[Event]:
        yield from self._end_step()
        for search, delta in search_steps(self._grounding, self.ids_and_clock.new_id(GENERATED_ID_PREFIX)):
            yield from self._complete_step(search, delta)
        ending = step.endings[0]
        status = "completed" if ending.outcome is Outcome.COMPLETE else "incomplete"
        filtered = ending.outcome is Outcome.FILTERED and not ending.called
        reason = "".join(self.finish_reasons[:1])
        errors = [{"code": reason, "message": self.refusal(ending.candidate)}] if filtered else []
        yield self._event(
            COMPLETED, interaction=self._finish("requires_action" if ending.called else status, errors)
        )
        yield Event(DONE, None)

    def _finish(self, status: str, errors: list[dict[str, str]]) -> JsonObject:
        interaction = {
            **self._interaction,
            "status": status,
            "updated": self._now(),
            "usage": usage_from_gemini(self.usage),
            **({"errors": errors} if errors else {}),
        }
        self.answer = {**interaction, "steps": self._fold.steps}
        return interaction

    def on_turn_failed(self, error: BridgeError) -> Iterator[Event]:
        rendered = error_from(error)
        self._finish("failed", [rendered])
        yield self._event(ERROR, error=rendered)
        yield Event(DONE, None)

    def fold(self, events: Iterable[Event]) -> JsonObject:
        fold, interaction = StepFold(), {}
        for event in events:
            fold.add(event)
            if event.type == COMPLETED:
                interaction = event.data["interaction"]
        return {**interaction, "steps": fold.steps}


def error_from(error: BridgeError) -> dict[str, str]:
    return {"code": RPC_CODES[error.kind].status, "message": error.message}


def framing(_converted: ConvertedRequest) -> StreamFraming:
    return StreamFraming(lambda event: END if event.type == DONE else encode_named(event))
