"""Reads the chunks of a Chat Completions stream as Gemini's chunks: one incremental machine for one answer.

Texts and thoughts are passed on at once. Calls are passed on when the choice ends or a text follows them,
because only then is it certain that they are whole. The last chunk has each finish reason and the usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bridge.errors import UpstreamMalformed, UpstreamTruncated
from bridge.gemini.finish import FinishReason
from bridge.gemini.types import Chunk, JsonObject
from bridge.gemini.wire import chunk_from_json
from bridge.upstream.openai.channel import TextChannel
from bridge.upstream.openai.content import Spoken, logprobs_of, spoken_in
from bridge.upstream.openai.slots import ToolSlots
from bridge.upstream.openai.usage import gemini_usage

Fields = dict[str, Any]

#: The words for the end of an answer; any other word counts as OTHER.
FINISH: Mapping[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_calls": FinishReason.STOP,
    "function_call": FinishReason.STOP,
    "length": FinishReason.MAX_TOKENS,
    "max_tokens": FinishReason.MAX_TOKENS,
    "model_length": FinishReason.MAX_TOKENS,
    "model_context_window_exceeded": FinishReason.MAX_TOKENS,
    "content_filter": FinishReason.SAFETY,
    "sensitive": FinishReason.SAFETY,
}
CALLING = frozenset(("tool_calls", "function_call"))
#: The server gave up in the middle of the answer.
ABORTED = frozenset(("abort", "insufficient_system_resource", "network_error"))


@dataclass(frozen=True, slots=True)
class AskedFor:
    """What the machine must know about the request."""

    tools: frozenset[str]
    thoughts: bool  #: whether the client wants to see thoughts
    prompt_estimate: int  #: tokens of the prompt, for a server that counts none
    cumulative_from: int
    server: str


class _Choice:
    """One of the answers to the request."""

    def __init__(self, asked: AskedFor) -> None:
        self.text = TextChannel(asked.cumulative_from)
        self.thoughts = TextChannel(asked.cumulative_from)
        self.finish: FinishReason | None = None
        self._asked = asked
        self._slots = ToolSlots(asked.tools, asked.server)

    def feed(self, choice: JsonObject) -> list[Fields]:
        """The new parts."""
        spoken = spoken_in(choice)
        parts = list(self._texts(spoken))
        if self.finish is None:
            self._slots.feed(spoken.calls)
            if isinstance(word := choice.get("finish_reason"), str) and word:
                parts += self.end(word)
        return parts

    def _texts(self, spoken: Spoken) -> Iterator[Fields]:
        if (thought := self.thoughts.new_text(spoken.thoughts)) and self._asked.thoughts:
            yield {"text": thought, "thought": True}
        if text := self.text.new_text(spoken.text):
            yield from _call_parts(self._slots.whole_calls())
            yield {"text": text}

    def end(self, word: str) -> list[Fields]:
        """The calls of the choice, which ended with this word."""
        if word in ABORTED:
            raise UpstreamTruncated(f"{self._asked.server} aborted the answer in the middle.")
        finish = FINISH.get(word.lower(), FinishReason.OTHER)
        if word in CALLING and not self._slots:
            raise UpstreamMalformed(f"{self._asked.server} announced a call and sent none.")
        parts = _call_parts(self._slots.calls(truncated=finish is not FinishReason.STOP))
        self.finish = finish
        return parts


class ChatAnswer:
    def __init__(self, asked: AskedFor) -> None:
        self._asked = asked
        self._choices: dict[int, _Choice] = {}
        self._usage: JsonObject | None = None
        self._names: Fields = {}

    def feed(self, source: JsonObject) -> Chunk | None:
        """The chunk in one event, if it holds something for the client."""
        if isinstance(usage := source.get("usage"), dict) and usage:
            self._usage = usage
        for name, field in (("model", "modelVersion"), ("id", "responseId")):
            if isinstance(value := source.get(name), str) and value:
                self._names[field] = value
        choices = source.get("choices")
        found = filter(None, map(self._candidate, choices if isinstance(choices, list) else ()))
        candidates = list(found)
        return chunk_from_json({"candidates": candidates, **self._names}) if candidates else None

    def _candidate(self, choice: Any) -> Fields | None:
        if not isinstance(choice, dict):
            return None
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        parts = self._choice(index).feed(choice)
        extra = logprobs_of(choice)
        return {**_said(parts), "index": index, **extra} if parts or extra else None

    def _choice(self, index: int) -> _Choice:
        return self._choices.get(index) or self._choices.setdefault(index, _Choice(self._asked))

    def end(self, *, announced: bool) -> list[Chunk]:
        """The last chunk. `announced`: the server said that the answer is complete; without that, a choice
        without a finish reason was truncated."""
        open_choices = [choice for choice in self._choices.values() if choice.finish is None]
        if not self._choices or (open_choices and not announced):
            raise UpstreamTruncated(f"The answer of {self._asked.server} ended without a finish reason.")
        candidates = []
        for index, choice in sorted(self._choices.items()):
            parts = choice.end("stop") if choice.finish is None else []
            candidates.append({**_said(parts), "finishReason": str(choice.finish), "index": index})
        return [chunk_from_json({"candidates": candidates, "usageMetadata": self._counted(), **self._names})]

    def _counted(self) -> Fields:
        text = sum(choice.text.length for choice in self._choices.values())
        thoughts = sum(choice.thoughts.length for choice in self._choices.values())
        return gemini_usage(self._usage, self._asked.prompt_estimate, text, thoughts)


def _call_parts(calls: list[Fields]) -> list[Fields]:
    return [{"functionCall": call} for call in calls]


def _said(parts: list[Fields]) -> Fields:
    return {"content": {"role": "model", "parts": parts}} if parts else {}
