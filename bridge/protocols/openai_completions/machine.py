"""Steps to Completions chunks, and chunks to the whole completion.

All chunks have the form of the whole answer. Thoughts, calls and media have no place here, and are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar

from bridge.errors import BridgeError
from bridge.gemini.finish import Outcome
from bridge.gemini.turn import MetadataReceived, RunClosed, RunKind, RunOpened, TextAdded, TurnEnded
from bridge.gemini.types import JsonObject
from bridge.ids_and_clock import IdsAndClock
from bridge.protocols.base import ConvertedRequest, Event, EventMachine, Transitions
from bridge.protocols.openai_chunks import DONE, usage_from_gemini
from bridge.protocols.openai_completions.fences import FenceFilter
from bridge.protocols.openai_completions.logprobs import logprobs_from_gemini
from bridge.protocols.openai_errors import error_body

MAX_CHOICES = 8


class CompletionState(Enum):
    IDLE = auto()  #: nothing sent
    OPEN = auto()  #: choices are being written
    CLOSING = auto()  #: a choice has its finish reason
    COUNTED = auto()  #: usage sent
    FAILED = auto()  #: the error is sent, the end mark is not
    DONE = auto()


FINISH_REASONS: Mapping[Outcome, str] = {
    Outcome.COMPLETE: "stop",
    Outcome.LENGTH: "length",
    Outcome.FILTERED: "content_filter",
    Outcome.BROKEN: "stop",  # only behind a whole call, which no request asks for; any other has failed
}


@dataclass(frozen=True, slots=True)
class CompletionOptions:
    include_usage: bool = False
    logprobs: bool = False
    echo: str = ""  #: the text that every choice begins with
    unfence: bool = False  #: a Markdown fence around a whole choice is removed


class CompletionsMachine(EventMachine):
    START = CompletionState.IDLE
    MAX_CANDIDATES = MAX_CHOICES
    LEGAL: ClassVar[Transitions] = {
        CompletionState.IDLE: {
            "text": CompletionState.OPEN,
            "logprobs": CompletionState.OPEN,
            "finish": CompletionState.CLOSING,
            "error": CompletionState.FAILED,
        },
        CompletionState.OPEN: {
            "text": CompletionState.OPEN,
            "logprobs": CompletionState.OPEN,
            "finish": CompletionState.CLOSING,
            "error": CompletionState.FAILED,
        },
        CompletionState.CLOSING: {
            "text": CompletionState.CLOSING,
            "finish": CompletionState.CLOSING,
            "usage": CompletionState.COUNTED,
            "done": CompletionState.DONE,
            "error": CompletionState.FAILED,
        },
        CompletionState.COUNTED: {"done": CompletionState.DONE, "error": CompletionState.FAILED},
        CompletionState.FAILED: {"done": CompletionState.DONE},
        CompletionState.DONE: {},
    }

    def __init__(self, asked: ConvertedRequest, ids_and_clock: IdsAndClock) -> None:
        super().__init__(asked, ids_and_clock)
        options = asked.options
        self._options = options if isinstance(options, CompletionOptions) else CompletionOptions()
        self._head = {
            "id": ids_and_clock.new_id("cmpl-"),
            "object": "text_completion",
            "created": int(ids_and_clock.now()),
            "model": asked.request.model,
        }
        self._tail: dict[str, Any] = {"usage": None} if self._options.include_usage else {}
        self._choices: dict[int, _Choice] = {}

    def _choice(self, candidate: int) -> _Choice:
        choice = self._choices.get(candidate)
        if choice is None:
            choice = self._choices[candidate] = _Choice(self._options)
        return choice

    def _event(
        self,
        kind: str,
        candidate: int,
        text: str = "",
        logprobs: JsonObject | None = None,
        finish: str | None = None,
    ) -> Event:
        choice = {"text": text, "index": candidate, "logprobs": logprobs, "finish_reason": finish}
        return Event(kind, {**self._head, "choices": [choice], **self._tail})

    def on_run_opened(self, step: RunOpened) -> tuple[Event, ...]:
        if step.part is not None:
            self.losses.append("completions.part_not_shown")
        elif step.kind is RunKind.THOUGHT:
            self.losses.append("completions.thought_not_shown")
        return ()

    def on_text_added(self, step: TextAdded) -> Iterator[Event]:
        if step.kind is RunKind.TEXT and (text := self._choice(step.candidate).grown(step.text)):
            yield self._event("text", step.candidate, text)

    def on_run_closed(self, _step: RunClosed) -> tuple[Event, ...]:
        return ()

    def on_metadata(self, step: MetadataReceived) -> Iterator[Event]:
        if self._options.logprobs and (result := step.fields.get("logprobsResult")):
            shown = self._choice(step.candidate).logprobs(result)
            yield self._event("logprobs", step.candidate, logprobs=shown)

    def on_turn_ended(self, step: TurnEnded) -> Iterator[Event]:
        for candidate, outcome, _ in step.endings:
            if rest := self._choice(candidate).rest():
                yield self._event("text", candidate, rest)
            yield self._event("finish", candidate, finish=FINISH_REASONS[outcome])
        if self._options.include_usage:
            yield Event("usage", {**self._head, "choices": [], "usage": usage_from_gemini(step.usage)})
        yield DONE

    def on_turn_failed(self, error: BridgeError) -> tuple[Event, ...]:
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
        return {**self._head, "choices": choices, "usage": usage}


class _Choice:
    """What has been sent of one candidate, and what is held back."""

    def __init__(self, options: CompletionOptions) -> None:
        self._beginning = options.echo
        self._fence = FenceFilter() if options.unfence else None
        self._offset = 0

    def grown(self, text: str) -> str:
        return self._begun(text if self._fence is None else self._fence.feed(text))

    def rest(self) -> str:
        return self._begun("" if self._fence is None else self._fence.finish())

    def _begun(self, text: str) -> str:
        beginning, self._beginning = self._beginning, ""
        return beginning + text

    def logprobs(self, result: JsonObject) -> JsonObject:
        shown = logprobs_from_gemini(result, self._offset)
        self._offset += sum(map(len, shown["tokens"]))
        return shown


class _Folded:
    """One choice, put together from its chunks."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._logprobs: dict[str, list[Any]] = defaultdict(list)
        self._finish_reason: str | None = None

    def add(self, shown: JsonObject) -> None:
        self._texts.append(shown["text"])
        self._finish_reason = shown["finish_reason"]
        for name, values in (shown["logprobs"] or {}).items():
            self._logprobs[name].extend(values)

    def choice(self, index: int) -> dict[str, Any]:
        return {
            "text": "".join(self._texts),
            "index": index,
            "logprobs": dict(self._logprobs) or None,
            "finish_reason": self._finish_reason,
        }
