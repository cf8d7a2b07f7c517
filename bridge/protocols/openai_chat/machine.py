"""Converts steps to Chat Completions chunks, and chunks to the whole completion.

Role, id and name are sent once, since clients concatenate repeated values. The usage chunk comes last and has
no choices. Thoughts are sent as `reasoning_content`; Gemini's part order and signatures in
`extra_content.google`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar

import orjson

from bridge.errors import BridgeError
from bridge.gemini.finish import Outcome
from bridge.gemini.freeform import freeform_text
from bridge.gemini.google_tools import is_server_tool
from bridge.gemini.grounding import citations_in
from bridge.gemini.hosted_tools import hosted_in, is_hosted
from bridge.gemini.turn import (
    Ending,
    MetadataReceived,
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
from bridge.protocols.hosted_lines import hosted_line
from bridge.protocols.openai_chat.part_order import part_layout
from bridge.protocols.openai_chunks import DONE, usage_from_gemini
from bridge.protocols.openai_errors import error_body
from bridge.protocols.openai_logprobs import logprobs_from_gemini
from bridge.protocols.openai_tiers import tier_for_answer

MAX_CHOICES = 8


class ChatState(Enum):
    IDLE = auto()  #: nothing sent
    OPEN = auto()  #: choices are being written
    CLOSING = auto()  #: a choice has its finish reason
    COUNTED = auto()  #: usage sent
    FAILED = auto()  #: the error was sent, the end marker not yet
    DONE = auto()


_WRITING = dict.fromkeys(
    (
        "role",
        "content",
        "reasoning",
        "tool_call",
        "image",
        "logprobs",
        "annotations",
        "refusal",
        "extra",
    ),
    ChatState.OPEN,
)

FINISH_REASONS: Mapping[Outcome, str] = {
    Outcome.COMPLETE: "stop",
    Outcome.LENGTH: "length",
    Outcome.FILTERED: "content_filter",
    Outcome.BROKEN: "tool_calls",  # a broken answer with complete calls; any other one has failed
}


@dataclass(frozen=True, slots=True)
class ChatOptions:
    include_usage: bool = False
    logprobs: bool = False
    legacy_functions: bool = False  #: the request has `functions`, so the answer has `function_call`
    custom_tools: frozenset[str] = frozenset()  #: names of freeform tools, whose calls carry a text


class ChatMachine(EventMachine):
    START = ChatState.IDLE
    MAX_CANDIDATES = MAX_CHOICES
    LEGAL: ClassVar[Transitions] = {
        ChatState.IDLE: {"role": ChatState.OPEN, "error": ChatState.FAILED},
        ChatState.OPEN: {**_WRITING, "finish": ChatState.CLOSING, "error": ChatState.FAILED},
        ChatState.CLOSING: {
            "role": ChatState.CLOSING,
            "annotations": ChatState.CLOSING,
            "refusal": ChatState.CLOSING,
            "extra": ChatState.CLOSING,
            "finish": ChatState.CLOSING,
            "usage": ChatState.COUNTED,
            "done": ChatState.DONE,
            "error": ChatState.FAILED,
        },
        ChatState.COUNTED: {"done": ChatState.DONE, "error": ChatState.FAILED},
        ChatState.FAILED: {"done": ChatState.DONE},
        ChatState.DONE: {},
    }

    def __init__(self, converted: ConvertedRequest, ids_and_clock: IdsAndClock) -> None:
        super().__init__(converted, ids_and_clock)
        options = converted.options
        self._options = options if isinstance(options, ChatOptions) else ChatOptions()
        self._head = {
            "id": ids_and_clock.new_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": int(ids_and_clock.now()),
            "model": converted.request.model,
        }
        self._tail: dict[str, Any] = {"usage": None} if self._options.include_usage else {}
        self._choices: dict[int, _ChoiceState] = {}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "choices": choices, **self._tail}

    def _delta(self, kind: str, candidate: int, delta: JsonObject, finish: str | None = None) -> Event:
        choice = {"index": candidate, "delta": delta, "logprobs": None, "finish_reason": finish}
        return Event(kind, self._chunk([choice]))

    def _choice(self, candidate: int) -> _ChoiceState:
        choice = self._choices.get(candidate)
        if choice is None:
            choice = self._choices[candidate] = _ChoiceState()
        return choice

    def _role_event(self, candidate: int, kind: RunKind | None) -> Iterator[Event]:
        choice = self._choice(candidate)
        if not choice.role_sent:
            choice.role_sent = True
            content = "" if kind is RunKind.TEXT else None
            yield self._delta("role", candidate, {"role": "assistant", "content": content})

    def on_turn_started(self, _step: TurnStarted) -> tuple[Event, ...]:
        self._set_service_tier()
        return ()

    def _set_service_tier(self) -> None:
        """Report the tier if the client named one. Gemini may correct it until the end of the answer."""
        if self.converted.request.service_tier is not None:
            self._head["service_tier"] = tier_for_answer(self.service_tier)

    def on_run_opened(self, step: RunOpened) -> Iterator[Event]:
        yield from self._role_event(step.candidate, step.kind)
        if step.part is None:
            return
        data = step.part.data
        if isinstance(data, FunctionCall):
            yield from self._call(step.candidate, data, step.part.signature)
        elif isinstance(data, InlineData):
            yield self._image(step.candidate, data)
        elif (hosted := hosted_in(data)) is not None:
            yield self._delta("reasoning", step.candidate, {"reasoning_content": hosted_line(hosted)})
        elif not is_server_tool(data):  # the layout carries these
            self.losses.append("chat.part_not_shown")

    def _call(self, candidate: int, call: FunctionCall, signature: str | None) -> Iterator[Event]:
        choice = self._choice(candidate)
        index = choice.calls
        choice.calls += 1
        if not self._options.legacy_functions:
            entry = {"index": index, "id": call.id, **self._tool(call), **_signature_fields(signature)}
            yield self._delta("tool_call", candidate, {"tool_calls": [entry]})
        elif index == 0:
            yield self._delta(
                "tool_call", candidate, {"function_call": _function(call), **_signature_fields(signature)}
            )
        else:
            self.losses.append("chat.second_function_call")  # the legacy form allows only one

    def _tool(self, call: FunctionCall) -> dict[str, Any]:
        if call.name in self._options.custom_tools:
            return {"type": "custom", "custom": {"name": call.name, "input": freeform_text(call)}}
        return {"type": "function", "function": _function(call)}

    def _image(self, candidate: int, image: InlineData) -> Event:
        choice = self._choice(candidate)
        url = f"data:{image.mime_type};base64,{image.data}"
        entry = {"index": choice.images, "type": "image_url", "image_url": {"url": url}}
        choice.images += 1
        return self._delta("image", candidate, {"images": [entry]})

    def on_text_added(self, step: TextAdded) -> tuple[Event, ...]:
        if step.kind is not RunKind.TEXT:
            return (self._delta("reasoning", step.candidate, {"reasoning_content": step.text}),)
        delta = {"content": step.text}
        choice = {"index": step.candidate, "delta": delta, "logprobs": None, "finish_reason": None}
        return (Event("content", {**self._head, "choices": [choice], **self._tail}),)

    def on_run_closed(self, step: RunClosed) -> tuple[Event, ...]:
        if not is_hosted(step.parts[0].data):  # the whole results would make the layout too long
            self._choice(step.candidate).parts.extend(step.parts)
        return ()

    def on_metadata(self, step: MetadataReceived) -> Iterator[Event]:
        if self._options.logprobs and (result := step.fields.get("logprobsResult")):
            yield from self._role_event(step.candidate, RunKind.TEXT)
            entry = {"index": step.candidate, "delta": {}, "logprobs": logprobs_from_gemini(result)}
            yield Event("logprobs", self._chunk([{**entry, "finish_reason": None}]))
        if grounding := step.fields.get("groundingMetadata"):
            self._choice(step.candidate).google["grounding_metadata"] = grounding

    def on_turn_ended(self, step: TurnEnded) -> Iterator[Event]:
        self._set_service_tier()
        for ending in step.endings:
            yield from self._finish_choice(ending)
        if self._options.include_usage:
            yield Event("usage", {**self._head, "choices": [], "usage": usage_from_gemini(step.usage)})
        yield DONE

    def _finish_choice(self, ending: Ending) -> Iterator[Event]:
        yield from self._role_event(ending.candidate, None)
        choice = self._choice(ending.candidate)
        if annotations := _annotations(choice):
            yield self._delta("annotations", ending.candidate, {"annotations": annotations})
        if ending.outcome is Outcome.FILTERED and not ending.called:
            yield self._delta("refusal", ending.candidate, {"refusal": self.refusal(ending.candidate)})
        if (layout := part_layout(choice.parts)) is not None:
            choice.google["parts"] = layout
        if choice.google:
            yield self._delta("extra", ending.candidate, {"extra_content": {"google": choice.google}})
        yield self._delta("finish", ending.candidate, {}, self._finish_reason(ending))

    def _finish_reason(self, ending: Ending) -> str:
        if not ending.called:
            return FINISH_REASONS[ending.outcome]
        return "function_call" if self._options.legacy_functions else "tool_calls"

    def on_turn_failed(self, error: BridgeError) -> tuple[Event, ...]:
        return Event("error", error_body(error)), DONE

    def fold(self, events: Iterable[Event]) -> dict[str, Any]:
        folded: dict[int, _FoldedChoice] = defaultdict(_FoldedChoice)
        usage = None
        for event in events:
            if event.type == "usage":
                usage = event.data["usage"]
            elif event is not DONE:
                entry = event.data["choices"][0]
                folded[entry["index"]].add(entry)
        choices = [folded[index].choice(index) for index in sorted(folded)]
        return {**self._head, "object": "chat.completion", "choices": choices, "usage": usage}


class _ChoiceState:
    """What was sent of one candidate so far."""

    def __init__(self) -> None:
        self.role_sent = False
        self.calls = 0
        self.images = 0
        self.parts: list[Part] = []
        self.google: dict[str, Any] = {}


def _annotations(choice: _ChoiceState) -> list[dict[str, Any]]:
    """The citations of the text. Gemini sends them after it."""
    grounding = choice.google.get("grounding_metadata")
    texts = (part.data for part in choice.parts if isinstance(part.data, str) and not part.thought)
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": cited.start,
                "end_index": cited.end,
                "url": cited.source.url,
                "title": cited.source.title,
            },
        }
        for cited in (citations_in("".join(texts), grounding) if grounding else ())
    ]


def _function(call: FunctionCall) -> dict[str, Any]:
    return {"name": call.name, "arguments": orjson.dumps(dict(call.args or {})).decode()}


def _signature_fields(signature: str | None) -> dict[str, Any]:
    return {} if signature is None else {"extra_content": {"google": {"thought_signature": signature}}}


# --- the whole completion ----------------------------------------------------------------------------


class _FoldedChoice:
    """Builds one choice from its deltas, like a client's SDK."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": []}
        self._fields: dict[str, Any] = {}
        self._logprobs: list[Any] = []
        self._finish_reason: str | None = None

    def add(self, entry: JsonObject) -> None:
        self._finish_reason = entry["finish_reason"]
        if entry["logprobs"]:
            self._logprobs.extend(entry["logprobs"]["content"])
        for key, value in entry["delta"].items():
            if key in ("content", "reasoning_content"):
                self._texts.setdefault(key, []).append(value or "")
            elif isinstance(value, list):
                self._fields.setdefault(key, []).extend(map(_without_index, value))
            elif key == "extra_content":
                self._fields.setdefault(key, {"google": {}})["google"].update(value["google"])
            else:
                self._fields[key] = value

    def choice(self, index: int) -> dict[str, Any]:
        texts = {key: "".join(pieces) or None for key, pieces in self._texts.items()}
        return {
            "index": index,
            "message": {"role": "assistant", "refusal": None, **texts, **self._fields},
            "logprobs": {"content": self._logprobs, "refusal": None} if self._logprobs else None,
            "finish_reason": self._finish_reason,
        }


def _without_index(item: JsonObject) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "index"}
