"""Steps to Chat Completions chunks, and chunks to the whole completion.

Role, id and name are sent once: clients concatenate what they get twice. The usage chunk comes last, with no
choices. Thoughts travel as `reasoning_content`; Gemini's own order and signatures in `extra_content.google`.
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
from bridge.gemini.turn import Began, Closed, Ended, Ending, Grew, Noted, Opened, RunKind
from bridge.gemini.types import FunctionCall, InlineData, JsonObject, Part
from bridge.ids_and_clock import IdsAndClock
from bridge.protocols.base import ConvertedRequest, Event, EventMachine, Transitions
from bridge.protocols.openai_chat.logprobs import logprobs_from_gemini
from bridge.protocols.openai_chat.part_order import layout_of
from bridge.protocols.openai_chunks import DONE, usage_from_gemini
from bridge.protocols.openai_errors import error_body
from bridge.protocols.openai_tiers import told_tier

MOST_CHOICES = 8


class State(Enum):
    IDLE = auto()  #: nothing sent
    OPEN = auto()  #: choices are being written
    CLOSING = auto()  #: a choice has its finish reason
    COUNTED = auto()  #: usage sent
    FAILED = auto()  #: the error is out, the end mark not yet
    DONE = auto()


_WRITING = dict.fromkeys(
    ("role", "content", "reasoning", "tool_call", "image", "logprobs", "extra"), State.OPEN
)

FINISH_REASONS: Mapping[Outcome, str] = {
    Outcome.COMPLETE: "stop",
    Outcome.LENGTH: "length",
    Outcome.FILTERED: "content_filter",
    Outcome.BROKEN: "tool_calls",  # only a turn whose calls came whole ends so; any other has failed
}


@dataclass(frozen=True, slots=True)
class ChatOptions:
    include_usage: bool = False
    logprobs: bool = False
    legacy_functions: bool = False  #: asked with `functions`, answered with `function_call`
    custom_tools: frozenset[str] = frozenset()  #: freeform tools, whose call carries a text


class ChatMachine(EventMachine):
    START = State.IDLE
    MOST_CANDIDATES = MOST_CHOICES
    LEGAL: ClassVar[Transitions] = {
        State.IDLE: {"role": State.OPEN, "error": State.FAILED},
        State.OPEN: {**_WRITING, "finish": State.CLOSING, "error": State.FAILED},
        State.CLOSING: {
            "role": State.CLOSING,
            "extra": State.CLOSING,
            "finish": State.CLOSING,
            "usage": State.COUNTED,
            "done": State.DONE,
            "error": State.FAILED,
        },
        State.COUNTED: {"done": State.DONE, "error": State.FAILED},
        State.FAILED: {"done": State.DONE},
        State.DONE: {},
    }

    def __init__(self, asked: ConvertedRequest, ids_and_clock: IdsAndClock) -> None:
        super().__init__(asked, ids_and_clock)
        options = asked.options
        self._options = options if isinstance(options, ChatOptions) else ChatOptions()
        self._head = {
            "id": ids_and_clock.new_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": int(ids_and_clock.now()),
            "model": asked.request.model,
        }
        self._tail: dict[str, Any] = {"usage": None} if self._options.include_usage else {}
        self._choices: dict[int, _Choice] = {}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "choices": choices, **self._tail}

    def _delta(self, kind: str, candidate: int, delta: JsonObject, finish: str | None = None) -> Event:
        choice = {"index": candidate, "delta": delta, "logprobs": None, "finish_reason": finish}
        return Event(kind, self._chunk([choice]))

    def _choice(self, candidate: int) -> _Choice:
        choice = self._choices.get(candidate)
        if choice is None:
            choice = self._choices[candidate] = _Choice()
        return choice

    def _greeting(self, candidate: int, kind: RunKind | None) -> Iterator[Event]:
        choice = self._choice(candidate)
        if not choice.greeted:
            choice.greeted = True
            content = "" if kind is RunKind.TEXT else None
            yield self._delta("role", candidate, {"role": "assistant", "content": content})

    def on_began(self, _step: Began) -> tuple[Event, ...]:
        self._tell_tier()
        return ()

    def _tell_tier(self) -> None:
        """To who named one; what has been told of it is known better at the end."""
        if self.asked.request.service_tier is not None:
            self._head["service_tier"] = told_tier(self.service_tier)

    def on_opened(self, step: Opened) -> Iterator[Event]:
        yield from self._greeting(step.candidate, step.kind)
        if step.part is None:
            return
        data = step.part.data
        if isinstance(data, FunctionCall):
            yield from self._call(step.candidate, data, step.part.signature)
        elif isinstance(data, InlineData):
            yield self._image(step.candidate, data)
        else:
            self.losses.append("chat.part_not_shown")

    def _call(self, candidate: int, call: FunctionCall, signature: str | None) -> Iterator[Event]:
        choice = self._choice(candidate)
        index = choice.calls
        choice.calls += 1
        if not self._options.legacy_functions:
            shown = {"index": index, "id": call.id, **self._tool(call), **_signed(signature)}
            yield self._delta("tool_call", candidate, {"tool_calls": [shown]})
        elif index == 0:
            yield self._delta(
                "tool_call", candidate, {"function_call": _function(call), **_signed(signature)}
            )
        else:
            self.losses.append("chat.second_function_call")  # the legacy form has room for one

    def _tool(self, call: FunctionCall) -> dict[str, Any]:
        if call.name in self._options.custom_tools:
            return {"type": "custom", "custom": {"name": call.name, "input": freeform_text(call)}}
        return {"type": "function", "function": _function(call)}

    def _image(self, candidate: int, image: InlineData) -> Event:
        choice = self._choice(candidate)
        url = f"data:{image.mime_type};base64,{image.data}"
        shown = {"index": choice.images, "type": "image_url", "image_url": {"url": url}}
        choice.images += 1
        return self._delta("image", candidate, {"images": [shown]})

    def on_grew(self, step: Grew) -> tuple[Event, ...]:
        if step.kind is not RunKind.TEXT:
            return (self._delta("reasoning", step.candidate, {"reasoning_content": step.text}),)
        said = {"content": step.text}
        choice = {"index": step.candidate, "delta": said, "logprobs": None, "finish_reason": None}
        return (Event("content", {**self._head, "choices": [choice], **self._tail}),)

    def on_closed(self, step: Closed) -> tuple[Event, ...]:
        self._choice(step.candidate).parts.extend(step.parts)
        return ()

    def on_noted(self, step: Noted) -> Iterator[Event]:
        if self._options.logprobs and (result := step.fields.get("logprobsResult")):
            yield from self._greeting(step.candidate, RunKind.TEXT)
            shown = {"index": step.candidate, "delta": {}, "logprobs": logprobs_from_gemini(result)}
            yield Event("logprobs", self._chunk([{**shown, "finish_reason": None}]))
        if grounding := step.fields.get("groundingMetadata"):
            self._choice(step.candidate).google["grounding_metadata"] = grounding

    def on_ended(self, step: Ended) -> Iterator[Event]:
        self._tell_tier()
        for ending in step.endings:
            yield from self._finished(ending)
        if self._options.include_usage:
            yield Event("usage", {**self._head, "choices": [], "usage": usage_from_gemini(step.usage)})
        yield DONE

    def _finished(self, ending: Ending) -> Iterator[Event]:
        yield from self._greeting(ending.candidate, None)
        choice = self._choice(ending.candidate)
        if (layout := layout_of(choice.parts)) is not None:
            choice.google["parts"] = layout
        if choice.google:
            yield self._delta("extra", ending.candidate, {"extra_content": {"google": choice.google}})
        yield self._delta("finish", ending.candidate, {}, self._finish_reason(ending))

    def _finish_reason(self, ending: Ending) -> str:
        if not ending.called:
            return FINISH_REASONS[ending.outcome]
        return "function_call" if self._options.legacy_functions else "tool_calls"

    def on_failed(self, error: BridgeError) -> tuple[Event, ...]:
        return Event("error", error_body(error)), DONE

    def fold(self, events: Iterable[Event]) -> dict[str, Any]:
        folded: dict[int, _Folded] = defaultdict(_Folded)
        usage = None
        for event in events:
            if event.type == "usage":
                usage = event.data["usage"]
            elif event is not DONE:
                shown = event.data["choices"][0]
                folded[shown["index"]].add(shown)
        choices = [folded[index].choice(index) for index in sorted(folded)]
        return {**self._head, "object": "chat.completion", "choices": choices, "usage": usage}


class _Choice:
    """What has been sent of one candidate."""

    def __init__(self) -> None:
        self.greeted = False
        self.calls = 0
        self.images = 0
        self.parts: list[Part] = []
        self.google: dict[str, Any] = {}


def _function(call: FunctionCall) -> dict[str, Any]:
    return {"name": call.name, "arguments": orjson.dumps(dict(call.args or {})).decode()}


def _signed(signature: str | None) -> dict[str, Any]:
    return {} if signature is None else {"extra_content": {"google": {"thought_signature": signature}}}


# --- the whole completion ----------------------------------------------------------------------------


class _Folded:
    """One choice, put together from its deltas as a client's SDK does it."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": []}
        self._fields: dict[str, Any] = {}
        self._logprobs: list[Any] = []
        self._finish_reason: str | None = None

    def add(self, shown: JsonObject) -> None:
        self._finish_reason = shown["finish_reason"]
        if shown["logprobs"]:
            self._logprobs.extend(shown["logprobs"]["content"])
        for key, value in shown["delta"].items():
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
