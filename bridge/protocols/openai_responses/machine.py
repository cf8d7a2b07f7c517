"""Converts steps to Responses events. The terminal event contains the whole response.

Codex reads the content only from `response.output_item.done`; SDKs need every event in the right order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from bridge.errors import BridgeError
from bridge.gemini.finish import Outcome, outcome_of
from bridge.gemini.google_tools import is_server_tool
from bridge.gemini.grounding import citations_in, web_search_from
from bridge.gemini.hosted_tools import hosted_in
from bridge.gemini.summary_part import WrittenSummary, written_summary
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
from bridge.gemini.types import FunctionCall, InlineData, JsonObject, Part
from bridge.ids_and_clock import IdsAndClock
from bridge.protocols.base import ConvertedRequest, Event, EventMachine, Transitions
from bridge.protocols.carried_signatures import for_next_call, for_part, for_thought
from bridge.protocols.hosted_lines import hosted_line
from bridge.protocols.openai_logprobs import logprobs_from_gemini
from bridge.protocols.openai_responses.calls import CallItem, call_item, status_if
from bridge.protocols.openai_responses.compaction import new_item, sealed_item
from bridge.protocols.openai_responses.echo import new_response
from bridge.protocols.openai_responses.errors import (
    FATAL_WITH_MESSAGE,
    STREAM_ERROR_KINDS,
    codex_error,
    response_error,
)
from bridge.protocols.openai_responses.hosted import (
    IMAGE_EVENTS,
    SEARCH_EVENTS,
    HostedItem,
    annotation,
    executed_code,
    image_item,
    is_image,
    search_item,
)
from bridge.protocols.openai_responses.mcp_items import mcp_item
from bridge.protocols.openai_responses.options import ResponsesOptions
from bridge.protocols.openai_responses.states import TRANSITIONS, ResponsesState
from bridge.protocols.openai_responses.usage import usage_from_gemini
from bridge.protocols.openai_tiers import tier_for_answer

ID_PREFIX = "resp_"
_EMPTY_TEXT = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}


class ResponsesMachine(EventMachine):
    START = ResponsesState.IDLE
    LEGAL: ClassVar[Transitions] = TRANSITIONS

    def __init__(self, converted: ConvertedRequest, ids_and_clock: IdsAndClock) -> None:
        super().__init__(converted, ids_and_clock)
        options = converted.options
        self._options = options if isinstance(options, ResponsesOptions) else ResponsesOptions()
        self._dialect = self._options.dialect
        self._sequence = 0
        self._output: list[dict[str, Any]] = []  # finished items
        self._item: dict[str, Any] | None = None  # the one being written
        self._pieces: list[str] = []
        self.pending = self._response = new_response(
            ids_and_clock.new_id(ID_PREFIX), ids_and_clock.now(), converted.request.model, self._options.echo
        )
        self._grounding: JsonObject | None = None
        self._texts: list[str] = []  # of the finished messages
        self._cited = 0
        self._called = False
        self._logprobs: list[dict[str, Any]] = []
        self._tool: HostedItem | None = None  # the item that waits for its result
        self._carried_signature = ""  # of the last server-side call, or of its response

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
        signed = {} if signature is None else {"encrypted_content": signature}
        yield self._finish_item(summary=[part] if summary else [], **signed)

    # --- steps ---------------------------------------------------------------------------------------

    def on_turn_started(self, _step: TurnStarted) -> Iterator[Event]:
        self._response["service_tier"] = tier_for_answer(self.service_tier)
        queued = self._dialect.queued_event and self._response.get("background")
        created = {**self._response, "status": "queued"} if queued else self._response
        yield self._event("response.created", response=created)
        if queued:
            yield self._event("response.queued", response=created)
        yield self._event("response.in_progress", response=self._response)

    def on_run_opened(self, step: RunOpened) -> Iterator[Event]:
        if step.part is not None and self._tool is not None and self._tool.add(step.part.data):
            yield from self._end_tool() if self._tool.complete else ()
            return
        yield from self._end_tool()
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
        if step.kind is RunKind.OTHER and step.part is not None:
            yield from self._hosted(step.part)

    def _hosted(self, part: Part) -> Iterable[Event]:
        """The item of a part that arrives whole and is no call."""
        data = part.data
        if (summary := written_summary(data)) is not None:
            return self._compaction(summary)
        if isinstance(data, InlineData) and is_image(data):
            item = image_item(self.ids_and_clock.new_id)
            return self._at_once(IMAGE_EVENTS, item, result=data.data)
        if self._options.encrypted_reasoning and is_server_tool(data):
            return self._carry(part)
        if not self._dialect.hosted_items and (hosted := hosted_in(data)) is not None:
            self._carried_signature = part.signature or ""
            return self._reasoning(hosted_line(hosted)) if self._options.thinking else ()
        tool = executed_code(data, self.ids_and_clock.new_id) or mcp_item(data, self._options.approved)
        if tool is not None:
            return self._begin_tool(tool, part.signature)
        self.losses.append("responses.part_not_shown")
        return ()

    def _compaction(self, summary: WrittenSummary) -> Iterator[Event]:
        if summary.text is not None:  # else the answer uses the whole conversation
            yield self._start_item(new_item(self.ids_and_clock.new_id))
            yield self._item_event("response.compaction.compacting")
            yield self._finish_item(encrypted_content=sealed_item(summary, self._options.seal))

    def _carry(self, part: Part) -> Iterator[Event]:
        self._carried_signature = part.signature or ""
        yield from self._reasoning()
        yield from self._end_reasoning(for_part(part))

    def _begin_tool(self, tool: HostedItem, signature: str | None) -> Iterator[Event]:
        if tool.takes_signature and signature is not None:
            self._carried_signature = signature
            if self._options.encrypted_reasoning:
                yield from self._reasoning()
                yield from self._end_reasoning(for_next_call(signature))
        self._tool = tool
        yield self._start_item(dict(tool.item))
        for kind, fields in tool.opening():
            yield self._item_event(kind, **fields)

    def _end_tool(self) -> Iterator[Event]:
        tool, self._tool = self._tool, None
        if tool is None:
            return
        for kind in tool.closing():
            yield self._item_event(kind)
        yield self._finish_item(**tool.finished())

    def _at_once(self, events: tuple[str, ...], item: dict[str, Any], **finished: Any) -> Iterator[Event]:
        """The item of a hosted tool of which only the result is known."""
        yield self._start_item({**item, "status": "in_progress"})
        for kind in events:
            yield self._item_event(kind)
        yield self._finish_item(**finished, status="completed")

    def _call(self, call: FunctionCall, signature: str | None) -> Iterator[Event]:
        carried = signature if self._options.encrypted_reasoning else None
        if carried is not None:
            yield from self._reasoning()
        yield from self._end_reasoning(None if carried is None else for_next_call(carried))
        entry: CallItem = call_item(call, self._options.calls.get(call.name), self.ids_and_clock.new_id)
        has_status = entry.has_status or self._dialect.call_status != "completed"
        self._called = True
        yield self._start_item({**entry.item, **entry.empty, **status_if(has_status, "in_progress")})
        if entry.event is not None:
            yield self._item_event(f"{entry.event}.delta", delta=entry.text)
            yield self._item_event(f"{entry.event}.done", **entry.done, **{entry.content: entry.text})
        yield self._finish_item(**entry.whole, **status_if(has_status, self._dialect.call_status))

    def on_text_added(self, step: TextAdded) -> Iterable[Event]:
        if step.kind is RunKind.THOUGHT:
            return self._reasoning(step.text) if self._options.thinking else ()
        if self._item is None:
            return (*self._begin_message(), self._text_delta(step.text))
        return (self._text_delta(step.text),)

    def _text_delta(self, text: str, logprobs: Sequence[JsonObject] = ()) -> Event:
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
            "logprobs": list(logprobs),
        }
        return Event("response.output_text.delta", data)

    def _message(self) -> dict[str, Any]:
        message = {"type": "message", "id": self.ids_and_clock.new_id("msg_"), "role": "assistant"}
        return {**message, "status": "in_progress", "content": []}

    def _begin_message(self) -> Iterator[Event]:
        yield self._start_item(self._message())
        yield self._item_event("response.content_part.added", content_index=0, part=_EMPTY_TEXT)

    def on_part_signed(self, step: PartSigned) -> Iterator[Event]:
        if step.kind is RunKind.CALL or step.signature == self._carried_signature:
            return  # already sent
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
        logprobs, self._logprobs = self._logprobs, []
        part = {"type": "output_text", "text": text, "annotations": self._annotations(text)}
        for index, cited in enumerate(part["annotations"]):
            yield self._item_event(
                "response.output_text.annotation.added",
                content_index=0,
                annotation_index=index,
                annotation=cited,
            )
        status = "incomplete" if step.last and self._is_cut() else "completed"
        yield from self._end_message({**part, "logprobs": logprobs}, status)

    def _end_message(self, part: dict[str, Any], status: str) -> Iterator[Event]:
        whole = {"output_text": part["text"]} if self._dialect.repeats_text else {}
        yield self._item_event(
            "response.output_text.done",
            content_index=0,
            text=part["text"],
            logprobs=part["logprobs"],
            **whole,
        )
        yield self._item_event("response.content_part.done", content_index=0, part=part)
        yield self._finish_item(status=status, content=[part])

    def _annotations(self, text: str) -> list[dict[str, Any]]:
        """The citations of a message. Gemini counts characters from the start of the answer."""
        before = "".join(self._texts)
        self._texts.append(text)
        citations = citations_in(before + text, self._grounding)
        cited = [annotation(each, len(before)) for each in citations if each.start >= len(before)]
        self._cited += len(cited)
        return cited

    def _is_cut(self) -> bool:
        """Whether a limit or a filter truncated the answer. A call makes it complete."""
        reasons = self._turn.finish_reasons
        return bool(reasons) and not self._called and outcome_of(reasons[0]) is not Outcome.COMPLETE

    def on_metadata(self, step: MetadataReceived) -> Iterable[Event]:
        self._grounding = step.fields.get("groundingMetadata") or self._grounding
        result = step.fields.get("logprobsResult") if self._options.logprobs else None
        tokens = logprobs_from_gemini(result)["content"] if result else []
        if not tokens:
            return ()
        if self.state is not ResponsesState.TEXT:
            self.losses.append("responses.logprobs_outside_message")
            return ()
        self._logprobs += tokens
        return (self._text_delta("", tokens),)

    def on_turn_ended(self, step: TurnEnded) -> Iterator[Event]:
        yield from self._end_reasoning()
        yield from self._end_tool()
        yield from self._search()
        ending = step.endings[0]
        if ending.called:
            yield from self._end(self._dialect.ends_with, self._dialect.call_status)
        elif ending.outcome is Outcome.COMPLETE:
            yield from self._end(self._dialect.ends_with, "completed")
        elif ending.outcome is Outcome.LENGTH:
            yield from self._end(self._dialect.limit_ends_with, "incomplete", reason="max_output_tokens")
        elif self._dialect.filter_fails:
            error = {"code": FATAL_WITH_MESSAGE, "message": self.refusal(ending.candidate)}
            yield from self._end(self._dialect.failure_ends_with, "failed", error=error)
        else:
            yield from () if self._texts else self._refuse(self.refusal(ending.candidate))
            yield from self._end(self._dialect.limit_ends_with, "incomplete", reason="content_filter")

    def _refuse(self, reason: str) -> Iterator[Event]:
        yield self._start_item(self._message())
        part = {"type": "refusal", "refusal": reason}
        yield self._item_event("response.content_part.added", content_index=0, part={**part, "refusal": ""})
        yield self._item_event("response.refusal.delta", content_index=0, delta=reason)
        yield self._item_event("response.refusal.done", content_index=0, refusal=reason)
        yield self._item_event("response.content_part.done", content_index=0, part=part)
        yield self._finish_item(status="incomplete", content=[part])

    def _search(self) -> Iterable[Event]:
        """Google's search as an item of OpenAI's search tool. Gemini sends the results last."""
        search = web_search_from(self._grounding)
        if search is None:
            return ()
        if len(citations_in("".join(self._texts), self._grounding)) > self._cited:
            self.losses.append("responses.citation_after_message")
        return self._at_once(SEARCH_EVENTS, search_item(search, self.ids_and_clock.new_id))

    def _end(
        self, events: tuple[str, ...], status: str, *, reason: str | None = None, error: Any = None
    ) -> Iterator[Event]:
        finished = status in ("completed", self._dialect.call_status)
        response = {
            **self._response,
            "completed_at": int(self.ids_and_clock.now()) if finished else None,
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
        told = codex_error(error) if self._dialect.codex_errors else response_error(error)
        yield from self._end(self._dialect.failure_ends_with, "failed", error=told)

    def fold(self, events: Iterable[Event]) -> JsonObject:
        *_, last = events
        return dict(last.data["response"])
