"""Converts steps to Messages events, and events to the whole message.

Claude Code is the reason for most special cases. It reads a tool's input from deltas only. It hides the text
if thinking is the last block, so a thought after text is held back until another block follows. A signature
must be sent in one delta, since some clients replace signatures and others concatenate them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Any, ClassVar

import orjson

from bridge.errors import BridgeError
from bridge.gemini.finish import Outcome
from bridge.gemini.google_tools import is_server_tool
from bridge.gemini.grounding import citations_in
from bridge.gemini.hosted_tools import Hosted, HostedCall, HostedKind, hosted_in
from bridge.gemini.service_tier import STANDARD
from bridge.gemini.summary_part import WrittenSummary, written_summary
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
from bridge.gemini.types import FunctionCall, InlineData, OtherData, Part, Usage
from bridge.ids_and_clock import IdsAndClock
from bridge.protocols.anthropic_messages import executed_code, mcp
from bridge.protocols.anthropic_messages.compaction import BLOCK, block_delta, block_fields, iteration
from bridge.protocols.anthropic_messages.computer_toolset import name_fields
from bridge.protocols.anthropic_messages.context_management import CONTEXT_MANAGEMENT, applied_edits
from bridge.protocols.anthropic_messages.errors import error_body
from bridge.protocols.anthropic_messages.fold import fold_message
from bridge.protocols.anthropic_messages.grounded import citation, image_note, server_calls, server_tool_usage
from bridge.protocols.anthropic_messages.options import MessagesOptions
from bridge.protocols.anthropic_messages.usage import usage_from_gemini
from bridge.protocols.base import ConvertedRequest, Event, EventMachine, Transitions
from bridge.protocols.carried_signatures import for_next_call, for_part, for_thought
from bridge.protocols.hosted_lines import hosted_line


class MessagesState(Enum):
    IDLE = auto()  #: nothing sent
    OPEN = auto()  #: message started, between blocks
    BLOCK = auto()  #: inside a content block
    CLOSING = auto()  #: stop reason sent
    DONE = auto()
    FAILED = auto()


REFUSAL = "refusal"
COMPACTION = "compaction"
_METADATA = ("groundingMetadata", "urlContextMetadata")

STOP_REASONS: Mapping[Outcome, str] = {
    Outcome.COMPLETE: "end_turn",  # Gemini does not say whether a stop sequence ended it
    Outcome.LENGTH: "max_tokens",
    Outcome.FILTERED: REFUSAL,
    Outcome.BROKEN: "tool_use",  # a broken answer with complete calls; any other one has failed
}


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
        self._options = options if isinstance(options, MessagesOptions) else MessagesOptions()
        self._shows_thinking = self._options.thinking
        self._summary: WrittenSummary | None = None
        self._index = -1
        self._open_block: str | None = None  # the kind of the block being written
        self._thinking_length = 0  # the length of the thinking in the open block
        self._text_started = False
        self._held_thought: list[TextAdded | PartSigned | Part] | None = (
            None  # a thought after text, until another block follows
        )
        self._metadata: dict[str, Any] = {}  # the search and the fetched pages
        self._texts: list[str] = []  # the text of each run so far
        self._cited = 0  # citations that were sent
        self._sent_signature = ""  # of the last call or code
        self._code_ids: list[str] = []  # of the executed codes that were sent

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
            elif isinstance(step, Part):
                yield from self._think()
                yield from self._sign(for_part(step))
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
        elif step.kind is RunKind.OTHER and step.part is not None:
            yield from self._other(step.part)
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
        yield from self._sign_call(signature)
        yield from self._tool_block("tool_use", call.args or {}, id=call.id, **name_fields(call.name))

    def _sign_call(self, signature: str | None) -> Iterator[Event]:
        if signature is not None and self._may_add_thinking():
            self._sent_signature = signature
            yield from self._think()
            yield from self._sign(for_next_call(signature))
        yield from self._stop_block()

    def _tool_block(self, kind: str, arguments: Mapping[str, Any], **block: Any) -> Iterator[Event]:
        yield self._start_block(kind, **block, input={})
        yield self._delta("input_json_delta", partial_json=orjson.dumps(dict(arguments)).decode())
        yield from self._stop_block()

    def _result_block(self, kind: str, call_id: str, content: Any, **more: Any) -> Iterator[Event]:
        yield self._start_block(kind, tool_use_id=call_id, content=content, **more)
        yield from self._stop_block()

    def _other(self, part: Part) -> Iterator[Event]:
        data = part.data
        if (summary := written_summary(data)) is not None:
            yield from self._compaction(summary)
        elif is_server_tool(data) and self._shows_thinking:
            yield from self._carry(part)
        elif (hosted := hosted_in(data)) is not None:
            self._sent_signature = part.signature or ""  # the signature store has it
            if self._options.mcp_blocks:
                yield from self._run_by_bridge(hosted, part.signature)
            else:
                yield from self._open_thought()
                yield from self.on_text_added(TextAdded(0, 0, RunKind.THOUGHT, hosted_line(hosted)))
        elif isinstance(data, OtherData) and (code := executed_code.call_input(data)) is not None:
            yield from self._code(data, code, part.signature)
        elif self._code_ids and isinstance(data, OtherData) and executed_code.is_result(data):
            yield from self._code_result(data)
        else:
            self.losses.append("messages.part_not_shown")
            yield from self._image_note(data) if isinstance(data, InlineData) else self._stop_block()

    def _run_by_bridge(self, hosted: Hosted, signature: str | None) -> Iterator[Event]:
        """Messages has no blocks for lists of tools and for requests for approval."""
        if hosted.kind is not HostedKind.CALL:
            return
        yield from self._send_held_thought()
        if isinstance(hosted, HostedCall):
            yield from self._sign_call(signature)
            yield from self._tool_block(mcp.CALL, hosted.arguments, **mcp.call_fields(hosted))
        else:
            yield from self._stop_block()
            yield from self._result_block(mcp.RESULT, **mcp.result_fields(hosted))

    def _compaction(self, summary: WrittenSummary) -> Iterator[Event]:
        self._summary = summary
        seal, on_demand = self._options.seal, self._options.on_demand
        yield self._start_block(BLOCK, **block_fields(summary, seal, on_demand=on_demand))
        yield self._delta("compaction_delta", **block_delta(summary, seal, on_demand=on_demand))
        yield from self._stop_block()

    def _code(self, data: OtherData, code: Mapping[str, Any], signature: str | None) -> Iterator[Event]:
        yield from self._send_held_thought()
        yield from self._sign_call(signature)
        code_id = executed_code.own_id(data) or self._new_server_id()
        self._code_ids.append(code_id)
        yield from self._tool_block("server_tool_use", code, id=code_id, name=executed_code.TOOL)

    def _code_result(self, data: OtherData) -> Iterator[Event]:
        yield from self._send_held_thought()
        yield from self._stop_block()
        own_id = executed_code.own_id(data)
        call_id = own_id if own_id in self._code_ids else self._code_ids[-1]
        result = executed_code.result_content(data.value)
        yield from self._result_block(executed_code.RESULT_TYPE, call_id, result)

    def _carry(self, part: Part) -> Iterator[Event]:
        """A thinking block that the client returns with the next request."""
        self._sent_signature = part.signature or ""
        self._held_thought = self._held_thought or []
        self._held_thought.append(part)
        if self._text_started:
            yield from self._stop_block()
        else:
            yield from self._send_held_thought()

    def _new_server_id(self) -> str:
        return self.ids_and_clock.new_id(executed_code.ID_PREFIX)

    def _image_note(self, image: InlineData) -> Iterator[Event]:
        """Tell the user that there is an image: no block of an answer can hold one."""
        yield from self._begin_text()
        yield self._delta("text_delta", text=image_note(image))
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
        if step.kind is RunKind.CALL or step.signature == self._sent_signature:
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
            yield from self._cite("".join(str(part.data) for part in step.parts))
            yield from self._stop_block()

    def _cite(self, text: str) -> Iterator[Event]:
        """Send the citations of the open block. Gemini sends them last, so no earlier block can have any."""
        start = sum(map(len, self._texts))
        self._texts.append(text)
        whole = "".join(self._texts) if self._grounding else ""
        for cited in citations_in(whole, self._grounding):
            if cited.start >= start and self._open_block == "text":
                self._cited += 1
                yield self._delta("citations_delta", citation=citation(cited, whole))

    @property
    def _grounding(self) -> Any:
        return self._metadata.get("groundingMetadata")

    def on_metadata(self, step: MetadataReceived) -> Iterable[Event]:
        self._metadata.update((name, step.fields[name]) for name in _METADATA if step.fields.get(name))
        return ()

    def on_turn_ended(self, step: TurnEnded) -> Iterator[Event]:
        yield from self._stop_block()
        if self._held_thought:
            self.losses.append("messages.thought_at_the_end")
        if len(citations_in("".join(self._texts), self._grounding)) > self._cited:
            self.losses.append("messages.citation_of_earlier_text")
        calls = server_calls(self._metadata)
        for call in calls:
            own_id = self._new_server_id()
            yield from self._tool_block("server_tool_use", call.input, id=own_id, name=call.tool)
            yield from self._result_block(call.result_type, own_id, call.result)
        usage = {**self._usage(step.usage), **server_tool_usage(calls)}
        managed = self._context_management()
        yield _event("message_delta", delta=self._ending(step.endings[0]), usage=usage, **managed)
        yield _event("message_stop")

    def _usage(self, usage: Usage) -> dict[str, Any]:
        """The tokens of a summary are an iteration of their own, and are not part of the sums."""
        if self._summary is None:
            return usage_from_gemini(usage)
        iterations = [iteration("compaction", usage_from_gemini(self._summary.usage))]
        if self._summary.alone:
            return {**usage_from_gemini(Usage()), "iterations": iterations}
        answer = usage_from_gemini(usage)
        return {**answer, "iterations": [*iterations, iteration("message", answer)]}

    def _context_management(self) -> dict[str, Any]:
        if not self._options.manages_context:
            return {}
        return {CONTEXT_MANAGEMENT: applied_edits(self.context_steps())}

    def _ending(self, ending: Ending) -> dict[str, Any]:
        reason = "tool_use" if ending.called else STOP_REASONS[ending.outcome]
        if self._summary is not None and self._summary.alone:
            reason = COMPACTION
        delta = {"stop_reason": reason, "stop_sequence": None}
        if reason != REFUSAL:
            return delta
        explanation = self.refusal(ending.candidate)
        return {**delta, "stop_details": {"type": REFUSAL, "category": None, "explanation": explanation}}

    def on_turn_failed(self, error: BridgeError) -> tuple[Event, ...]:
        return (Event("error", error_body(error)),)

    def fold(self, events: Iterable[Event]) -> dict[str, Any]:
        message = fold_message(event.data for event in events)
        return {**message, "usage": {**message["usage"], **self._tier()}}


def _event(kind: str, **data: Any) -> Event:
    return Event(kind, {"type": kind, **data})
