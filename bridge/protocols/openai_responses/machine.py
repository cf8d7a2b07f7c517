"""Converts steps to Responses events. The terminal event contains the whole response, so the fold just
returns it.

Codex reads the content only from `response.output_item.done`; SDKs need every event in the right order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar

from bridge.errors import BridgeError
from bridge.gemini.finish import Outcome
from bridge.gemini.grounding import web_search_from
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
from bridge.gemini.types import FunctionCall, JsonObject, Usage
from bridge.ids_and_clock import IdsAndClock
from bridge.protocols.base import ConvertedRequest, Event, EventMachine, StreamFraming, Transitions
from bridge.protocols.carried_signatures import for_next_call, for_thought
from bridge.protocols.openai_responses.calls import CallItem, call_item
from bridge.protocols.openai_responses.dialects import DIALECTS, Dialect
from bridge.protocols.openai_responses.errors import FATAL_WITH_MESSAGE, STREAM_ERROR_KINDS, stream_error
from bridge.protocols.openai_responses.tools import CalledTool
from bridge.protocols.openai_tiers import tier_for_answer
from bridge.protocols.sse import encode_named

ID_PREFIX = "resp_"


class ResponsesState(Enum):
    IDLE = auto()  #: nothing sent
    CREATED = auto()
    OPEN = auto()  #: between items
    ITEM = auto()  #: inside an output item
    TEXT = auto()  #: inside a text part of a message
    SUMMARY = auto()  #: inside a summary part of a reasoning item
    FAILED = auto()  #: final in most dialects; the bridge's own adds two events
    ENDING = auto()  #: response.done was sent, response.completed not yet
    DONE = auto()


_FAIL: dict[str, Enum] = {"response.failed": ResponsesState.FAILED}


@dataclass(frozen=True, slots=True)
class ResponsesOptions:
    dialect: Dialect = DIALECTS["bridge"]
    #: The client's tool behind each declared function.
    calls: Mapping[str, CalledTool] = field(default_factory=dict)
    thinking: bool = False
    encrypted_reasoning: bool = False  #: reasoning items may carry signatures
    echo: JsonObject = field(default_factory=dict)  #: fields of the request that the response repeats


class ResponsesMachine(EventMachine):
    START = ResponsesState.IDLE
    LEGAL: ClassVar[Transitions] = {
        ResponsesState.IDLE: {"response.created": ResponsesState.CREATED},
        ResponsesState.CREATED: {"response.in_progress": ResponsesState.OPEN, **_FAIL},
        ResponsesState.OPEN: {
            "response.output_item.added": ResponsesState.ITEM,
            "response.done": ResponsesState.ENDING,
            "response.completed": ResponsesState.DONE,
            "response.incomplete": ResponsesState.DONE,
            **_FAIL,
        },
        ResponsesState.ITEM: {
            "response.content_part.added": ResponsesState.TEXT,
            "response.reasoning_summary_part.added": ResponsesState.SUMMARY,
            "response.function_call_arguments.delta": ResponsesState.ITEM,
            "response.function_call_arguments.done": ResponsesState.ITEM,
            "response.custom_tool_call_input.delta": ResponsesState.ITEM,
            "response.custom_tool_call_input.done": ResponsesState.ITEM,
            "response.output_item.done": ResponsesState.OPEN,
            **_FAIL,
        },
        ResponsesState.TEXT: {
            "response.output_text.delta": ResponsesState.TEXT,
            "response.output_text.done": ResponsesState.TEXT,
            "response.content_part.done": ResponsesState.ITEM,
            **_FAIL,
        },
        ResponsesState.SUMMARY: {
            "response.reasoning_summary_text.delta": ResponsesState.SUMMARY,
            "response.reasoning_summary_text.done": ResponsesState.SUMMARY,
            "response.reasoning_summary_part.done": ResponsesState.ITEM,
            **_FAIL,
        },
        ResponsesState.FAILED: {"response.done": ResponsesState.ENDING},
        ResponsesState.ENDING: {"response.completed": ResponsesState.DONE},
        ResponsesState.DONE: {},
    }

    def __init__(self, converted: ConvertedRequest, ids_and_clock: IdsAndClock) -> None:
        super().__init__(converted, ids_and_clock)
        options = converted.options
        self._options = options if isinstance(options, ResponsesOptions) else ResponsesOptions()
        self._dialect = self._options.dialect
        self._sequence = 0
        self._output: list[dict[str, Any]] = []  # finished items
        self._item: dict[str, Any] | None = None  # the one being written
        self._pieces: list[str] = []
        self.pending = self._response = {
            "id": ids_and_clock.new_id(ID_PREFIX),
            "object": "response",
            "created_at": int(ids_and_clock.now()),
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": converted.request.model,
            "output": [],
            "usage": None,
            **self._options.echo,
        }
        self._grounding: JsonObject | None = None

    @property
    def over(self) -> bool:
        failed_for_good = len(self._dialect.failure_ends_with) == 1
        return super().over or (self.state is ResponsesState.FAILED and failed_for_good)

    def reports_in_stream(self, error: BridgeError) -> bool:
        return self._dialect.errors_in_stream and error.kind in STREAM_ERROR_KINDS

    # --- events --------------------------------------------------------------------------------------

    def _event(self, kind: str, **data: Any) -> Event:
        event = Event(kind, {"type": kind, "sequence_number": self._sequence, **data})
        self._sequence += 1
        return event

    def _item_event(self, kind: str, **data: Any) -> Event:
        assert self._item is not None
        return self._event(kind, item_id=self._item["id"], output_index=len(self._output), **data)

    def _start_item(self, item: dict[str, Any]) -> Event:
        self._item = item
        return self._event("response.output_item.added", output_index=len(self._output), item=item)

    def _finish_item(self, **finished: Any) -> Event:
        assert self._item is not None
        item = {**self._item, **finished}
        event = self._event("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        self._item = None
        return event

    # --- reasoning -----------------------------------------------------------------------------------

    def _reasoning(self, text: str = "") -> Iterator[Event]:
        if self._item is None:
            yield self._start_item(
                {"type": "reasoning", "id": self.ids_and_clock.new_id("rs_"), "summary": []}
            )
        if not text:
            return
        if not self._pieces:
            part = {"type": "summary_text", "text": ""}
            yield self._item_event("response.reasoning_summary_part.added", summary_index=0, part=part)
        self._pieces.append(text)
        yield self._item_event("response.reasoning_summary_text.delta", summary_index=0, delta=text)

    def _end_reasoning(self, signature: str | None = None) -> Iterator[Event]:
        if self._item is None or self._item["type"] != "reasoning":
            return
        summary, self._pieces = "".join(self._pieces), []
        part = {"type": "summary_text", "text": summary}
        if summary:
            yield self._item_event("response.reasoning_summary_text.done", summary_index=0, text=summary)
            yield self._item_event("response.reasoning_summary_part.done", summary_index=0, part=part)
        yield self._finish_item(summary=[part] if summary else [], encrypted_content=signature)

    # --- steps ---------------------------------------------------------------------------------------

    def on_turn_started(self, _step: TurnStarted) -> Iterator[Event]:
        self._response["service_tier"] = tier_for_answer(self.service_tier)
        yield self._event("response.created", response=self._response)
        yield self._event("response.in_progress", response=self._response)

    def on_run_opened(self, step: RunOpened) -> Iterator[Event]:
        if step.kind is RunKind.THOUGHT:
            if self._options.thinking:
                yield from self._reasoning()
            else:
                self.losses.append("responses.thought_not_asked_for")
            return
        if step.part is not None and isinstance(step.part.data, FunctionCall):
            yield from self._call(step.part.data, step.part.signature)
            return
        yield from self._end_reasoning()
        if step.kind is RunKind.OTHER:
            self.losses.append("responses.part_not_shown")

    def _call(self, call: FunctionCall, signature: str | None) -> Iterator[Event]:
        carried = signature if self._options.encrypted_reasoning else None
        if carried is not None:
            yield from self._reasoning()
        yield from self._end_reasoning(None if carried is None else for_next_call(carried))
        entry: CallItem = call_item(call, self._options.calls.get(call.name), self.ids_and_clock.new_id)
        yield self._start_item({**entry.item, **entry.empty, "status": "in_progress"})
        if entry.event is not None:
            yield self._item_event(f"{entry.event}.delta", delta=entry.text)
            yield self._item_event(f"{entry.event}.done", **{entry.field: entry.text})
        yield self._finish_item(**entry.whole, status=self._dialect.call_status)

    def on_text_added(self, step: TextAdded) -> Iterable[Event]:
        if step.kind is RunKind.THOUGHT:
            return self._reasoning(step.text) if self._options.thinking else ()
        if self._item is None:
            return (*self._begin_message(), self._text_delta(step.text))
        return (self._text_delta(step.text),)

    def _text_delta(self, text: str) -> Event:
        assert self._item is not None
        self._pieces.append(text)
        sequence, self._sequence = self._sequence, self._sequence + 1
        data = {
            "type": "response.output_text.delta",
            "sequence_number": sequence,
            "item_id": self._item["id"],
            "output_index": len(self._output),
            "content_index": 0,
            "delta": text,
            "logprobs": [],
        }
        return Event("response.output_text.delta", data)

    def _begin_message(self) -> Iterator[Event]:
        message = {"type": "message", "id": self.ids_and_clock.new_id("msg_"), "role": "assistant"}
        yield self._start_item({**message, "status": "in_progress", "content": []})
        yield self._item_event("response.content_part.added", content_index=0, part=_text_part(""))

    def on_part_signed(self, step: PartSigned) -> Iterator[Event]:
        if step.kind is RunKind.CALL:
            return  # already sent before the call
        if step.kind is RunKind.THOUGHT and self._options.thinking and self._options.encrypted_reasoning:
            yield from self._reasoning()
            whole = sum(map(len, self._pieces))
            yield from self._end_reasoning(for_thought(step.signature, step.length, whole))
        else:
            self.losses.append("responses.signature_without_a_seat")

    def on_run_closed(self, step: RunClosed) -> Iterator[Event]:
        # Reasoning stays open: the next call may need to sign it.
        if step.kind is not RunKind.TEXT or self._item is None:
            return
        text, self._pieces = "".join(self._pieces), []
        whole = {"output_text": text} if self._dialect.repeats_text else {}
        yield self._item_event("response.output_text.done", content_index=0, text=text, logprobs=[], **whole)
        yield self._item_event("response.content_part.done", content_index=0, part=_text_part(text))
        yield self._finish_item(status="completed", content=[_text_part(text)])

    def on_metadata(self, step: MetadataReceived) -> Iterable[Event]:
        self._grounding = step.fields.get("groundingMetadata") or self._grounding
        return ()

    def on_turn_ended(self, step: TurnEnded) -> Iterator[Event]:
        yield from self._end_reasoning()
        yield from self._search()
        ending = step.endings[0]
        if ending.called:
            yield from self._end(self._dialect.ends_with, self._dialect.call_status)
        elif ending.outcome is Outcome.COMPLETE:
            yield from self._end(self._dialect.ends_with, "completed")
        elif ending.outcome is Outcome.LENGTH:
            yield from self._end(self._dialect.limit_ends_with, "incomplete", reason="max_output_tokens")
        elif self._dialect.filter_fails:
            error = {"code": FATAL_WITH_MESSAGE, "message": "Gemini's safety filter stopped this answer."}
            yield from self._end(self._dialect.failure_ends_with, "failed", error=error)
        else:
            yield from self._end(self._dialect.limit_ends_with, "incomplete", reason="content_filter")

    def _search(self) -> Iterator[Event]:
        """Google's search as an item of OpenAI's search tool. Gemini sends the results last."""
        search = web_search_from(self._grounding)
        if search is None:
            return
        sources = [{"type": "url", "url": page.url} for page in search.pages]
        action = {"type": "search", "query": search.query, "queries": search.queries, "sources": sources}
        item = {"type": "web_search_call", "id": self.ids_and_clock.new_id("ws_"), "action": action}
        yield self._start_item({**item, "status": "in_progress"})
        yield self._finish_item(status="completed")

    def _end(
        self, events: tuple[str, ...], status: str, *, reason: str | None = None, error: Any = None
    ) -> Iterator[Event]:
        response = {
            **self._response,
            "service_tier": tier_for_answer(self.service_tier),
            "status": status,
            "output": self._output,
            "usage": usage_from_gemini(self.usage),
            "incomplete_details": None if reason is None else {"reason": reason},
            "error": error,
        }
        self.answer = response
        for kind in events:
            yield self._event(kind, response=response)

    def on_turn_failed(self, error: BridgeError) -> Iterator[Event]:
        if self.state is ResponsesState.IDLE:
            yield self._event("response.created", response=self._response)
        yield from self._end(self._dialect.failure_ends_with, "failed", error=stream_error(error))

    def fold(self, events: Iterable[Event]) -> JsonObject:
        *_, last = events
        response: JsonObject = last.data["response"]
        return response


HEARTBEAT = b'data: {"type":"keepalive"}\n\n'


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def usage_from_gemini(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.thoughts},
        "total_tokens": usage.total,
    }


def framing(converted: ConvertedRequest) -> StreamFraming:
    if isinstance(converted.options, ResponsesOptions) and converted.options.dialect.data_heartbeat:
        return StreamFraming(encode_named, HEARTBEAT)
    return StreamFraming(encode_named)
