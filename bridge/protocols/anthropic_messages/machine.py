"""Converts steps to Messages events, and events to the whole message.

Claude Code is the reason for most special cases. It reads a tool's input from deltas only. It hides the text
if thinking is the last block, so a thought after text is held back until another block follows. A signature
must be sent in one delta, since some clients replace signatures and others concatenate them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar

import orjson

from bridge.errors import BridgeError
from bridge.gemini.finish import Outcome
from bridge.gemini.grounding import web_search_from
from bridge.gemini.service_tier import STANDARD
from bridge.gemini.turn import (
    Ending,
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
from bridge.protocols.anthropic_messages.errors import error_body
from bridge.protocols.anthropic_messages.fold import fold_message
from bridge.protocols.anthropic_messages.web_search import search_result
from bridge.protocols.base import ConvertedRequest, Event, EventMachine, Transitions
from bridge.protocols.carried_signatures import for_next_call, for_thought


class MessagesState(Enum):
    IDLE = auto()  #: nothing sent
    OPEN = auto()  #: message started, between blocks
    BLOCK = auto()  #: inside a content block
    CLOSING = auto()  #: stop reason sent
    DONE = auto()
    FAILED = auto()


STOP_REASONS: Mapping[Outcome, str] = {
    Outcome.COMPLETE: "end_turn",  # Gemini does not say whether a stop sequence ended it
    Outcome.LENGTH: "max_tokens",
    Outcome.FILTERED: "refusal",
    Outcome.BROKEN: "tool_use",  # a broken answer with complete calls; any other one has failed
}


@dataclass(frozen=True, slots=True)
class MessagesOptions:
    thinking: bool = False  #: the client asked for thinking, so it may be shown


class MessagesMachine(EventMachine):
    START = MessagesState.IDLE
    LEGAL: ClassVar[Transitions] = {
        MessagesState.IDLE: {"message_start": MessagesState.OPEN, "error": MessagesState.FAILED},
        MessagesState.OPEN: {
            "content_block_start": MessagesState.BLOCK,
            "message_delta": MessagesState.CLOSING,
            "error": MessagesState.FAILED,
        },
        MessagesState.BLOCK: {
            "content_block_delta": MessagesState.BLOCK,
            "content_block_stop": MessagesState.OPEN,
            "error": MessagesState.FAILED,
        },
        MessagesState.CLOSING: {"message_stop": MessagesState.DONE, "error": MessagesState.FAILED},
        MessagesState.DONE: {},
        MessagesState.FAILED: {},
    }

    def __init__(self, converted: ConvertedRequest, ids_and_clock: IdsAndClock) -> None:
        super().__init__(converted, ids_and_clock)
        options = converted.options
        self._shows_thinking = isinstance(options, MessagesOptions) and options.thinking
        self._index = -1
        self._open_block: str | None = None  # the kind of the block being written
        self._thinking_length = 0  # the length of the thinking in the open block
        self._text_started = False
        self._held_thought: list[TextAdded | PartSigned] | None = (
            None  # a thought after text, until another block follows
        )
        self._grounding: JsonObject | None = None

    # --- blocks --------------------------------------------------------------------------------------

    def _start_block(self, kind: str, **block: Any) -> Event:
        self._index += 1
        self._open_block = kind
        return _event("content_block_start", index=self._index, content_block={"type": kind, **block})

    def _delta(self, kind: str, **delta: Any) -> Event:
        return _event("content_block_delta", index=self._index, delta={"type": kind, **delta})

    def _stop_block(self) -> Iterator[Event]:
        if self._open_block is not None:
            self._open_block = None
            yield _event("content_block_stop", index=self._index)

    def _think(self, text: str = "") -> Iterator[Event]:
        if self._open_block != "thinking":
            self._thinking_length = 0
            yield self._start_block("thinking", thinking="", signature="")
        if text:
            self._thinking_length += len(text)
            yield self._delta("thinking_delta", thinking=text)

    def _sign_thought(self, step: PartSigned) -> Iterator[Event]:
        yield from self._think()
        yield from self._sign(for_thought(step.signature, step.length, self._thinking_length))

    def _sign(self, signature: str) -> Iterator[Event]:
        """Sign the block and end it: a second signature needs a block of its own."""
        yield self._delta("signature_delta", signature=signature)
        yield from self._stop_block()

    def _send_held_thought(self) -> Iterator[Event]:
        """Send the held thought, because another block follows it."""
        held, self._held_thought = self._held_thought or [], None
        for step in held:
            if isinstance(step, TextAdded):
                yield from self._think(step.text)
            else:
                yield from self._sign_thought(step)

    # --- steps ---------------------------------------------------------------------------------------

    def on_turn_started(self, _step: TurnStarted) -> Iterator[Event]:
        message: dict[str, Any] = {
            "id": self.ids_and_clock.new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": self.converted.request.model,  # if it differs, Claude Code drops signed thinking
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**usage_from_gemini(self.usage), **self._tier()},
        }
        yield _event("message_start", message=message)

    def _tier(self) -> dict[str, str]:
        """The tier that serves the request, if the client named a tier."""
        named = self.converted.request.service_tier is not None
        return {"service_tier": self.service_tier or STANDARD} if named else {}

    def on_run_opened(self, step: RunOpened) -> Iterator[Event]:
        if step.kind is RunKind.THOUGHT:
            yield from self._open_thought()
        elif step.kind is RunKind.OTHER:
            yield from self._stop_block()
            self.losses.append("messages.part_not_shown")
        elif step.part is not None and isinstance(step.part.data, FunctionCall):
            yield from self._send_held_thought()
            yield from self._call(step.part.data, step.part.signature)

    def _open_thought(self) -> Iterator[Event]:
        if not self._shows_thinking:
            self.losses.append("messages.thought_not_asked_for")
        elif self._text_started:
            self._held_thought = self._held_thought or []
        else:
            yield from self._think()

    def _call(self, call: FunctionCall, signature: str | None) -> Iterator[Event]:
        if signature is not None and self._may_add_thinking():
            yield from self._think()
            yield from self._sign(for_next_call(signature))
        yield from self._stop_block()
        yield self._start_block("tool_use", id=call.id, name=call.name, input={})
        yield self._delta("input_json_delta", partial_json=orjson.dumps(dict(call.args or {})).decode())
        yield from self._stop_block()

    def _may_add_thinking(self) -> bool:
        """After text no thinking block is added; then only the signature store has the signature."""
        return self._open_block == "thinking" or (self._shows_thinking and not self._text_started)

    def on_text_added(self, step: TextAdded) -> Iterable[Event]:
        if step.kind is RunKind.TEXT and self._open_block == "text":
            delta = {"type": "text_delta", "text": step.text}
            kind = "content_block_delta"
            return (Event(kind, {"type": kind, "index": self._index, "delta": delta}),)
        return self._begin_or_hold(step)

    def _begin_or_hold(self, step: TextAdded) -> Iterator[Event]:
        if step.kind is RunKind.TEXT:
            yield from self._begin_text()
            yield self._delta("text_delta", text=step.text)
        elif self._held_thought is not None:
            self._held_thought.append(step)
        elif self._shows_thinking:
            yield from self._think(step.text)

    def _begin_text(self) -> Iterator[Event]:
        """Open a text block at its first character, so that an empty text does not end a held thought."""
        yield from self._send_held_thought()
        yield from self._stop_block()
        self._text_started = True
        yield self._start_block("text", text="")

    def on_part_signed(self, step: PartSigned) -> Iterator[Event]:
        if step.kind is RunKind.CALL:
            return  # already sent before the call
        if step.kind is not RunKind.THOUGHT or not self._shows_thinking:
            self.losses.append("messages.signature_without_a_seat")
        elif self._held_thought is not None:
            self._held_thought.append(step)
        else:
            yield from self._sign_thought(step)

    def on_run_closed(self, step: RunClosed) -> Iterator[Event]:
        # A thinking block stays open: the next call may need to sign it.
        if step.kind is RunKind.TEXT:
            yield from self._stop_block()

    def on_metadata(self, step: MetadataReceived) -> Iterable[Event]:
        self._grounding = step.fields.get("groundingMetadata") or self._grounding
        return ()

    def on_turn_ended(self, step: TurnEnded) -> Iterator[Event]:
        yield from self._stop_block()
        if self._held_thought:
            self.losses.append("messages.thought_at_the_end")
        searches = yield from self._searches()
        usage = {**usage_from_gemini(step.usage), **searches, **self._tier()}
        delta = {"stop_reason": _stop_reason(step.endings[0]), "stop_sequence": None}
        yield _event("message_delta", delta=delta, usage=usage)
        yield _event("message_stop")

    def _searches(self) -> Generator[Event, None, dict[str, Any]]:
        """Google's search results as blocks of Anthropic's search tool. Gemini sends them last."""
        search = web_search_from(self._grounding)
        if search is None:
            return {}
        own_id = self.ids_and_clock.new_id("srvtoolu_")
        yield self._start_block("server_tool_use", id=own_id, name="web_search", input={})
        yield self._delta("input_json_delta", partial_json=orjson.dumps({"query": search.query}).decode())
        yield from self._stop_block()
        results = [search_result(page) for page in search.pages]
        yield self._start_block("web_search_tool_result", tool_use_id=own_id, content=results)
        yield from self._stop_block()
        return {"server_tool_use": {"web_search_requests": max(1, len(search.queries))}}

    def on_turn_failed(self, error: BridgeError) -> tuple[Event, ...]:
        return (Event("error", error_body(error)),)

    def fold(self, events: Iterable[Event]) -> dict[str, Any]:
        return fold_message(event.data for event in events)


def _event(kind: str, **data: Any) -> Event:
    return Event(kind, {"type": kind, **data})


def _stop_reason(ending: Ending) -> str:
    return "tool_use" if ending.called else STOP_REASONS[ending.outcome]


def usage_from_gemini(usage: Usage) -> dict[str, Any]:
    """Anthropic counts cached tokens separately from the input tokens."""
    return {
        "input_tokens": max(0, usage.prompt - usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }
