"""One answer of the model within a run: what the client sees of it, and what the run needs of it.

Calls of the bridge's own tools are held back. Finish reasons are held back too, since the answer goes on. The
usage is the sum of all rounds so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bridge.gemini.finish import Outcome, outcome_of
from bridge.gemini.turn import RunClosed, Step, Turn, TurnFailed
from bridge.gemini.types import (
    MODEL,
    Candidate,
    Chunk,
    Content,
    FunctionCall,
    Part,
    TextChunk,
    Usage,
)


class ModelRound:
    def __init__(
        self,
        is_hosted: Callable[[FunctionCall], bool],
        spent: Usage,
        *,
        gap: str = "",
        text_as_thought: bool = False,
    ) -> None:
        """`spent` is the usage of the rounds before, and `gap` separates the text from theirs.
        `text_as_thought`: the answer of the run is not what the model says, but what it hands in."""
        self._is_hosted = is_hosted
        self._spent = spent
        self._gap = gap
        self._text_as_thought = text_as_thought
        self._turn = Turn()
        self._parts: list[Part] = []
        self.calls_client = False  #: a tool of the client was called
        self.text_sent = False

    @property
    def content(self) -> Content:
        """The whole turn of the model, as a later request must return it to Gemini."""
        return Content(MODEL, tuple(self._parts))

    @property
    def usage(self) -> Usage:
        """Of all rounds so far."""
        return self._spent + self._turn.usage if self._spent.raw else self._turn.usage

    @property
    def finish_reason(self) -> str | None:
        return next(iter(self._turn.finish_reasons), None)

    @property
    def complete(self) -> bool:
        return self.finish_reason is not None and outcome_of(self.finish_reason) is Outcome.COMPLETE

    def hosted_calls(self) -> list[Part]:
        """The parts with calls of the bridge's own tools."""
        return [part for part in self._parts if self._holds_back(part)]

    def feed(self, chunk: Chunk) -> Chunk:
        """What the client gets of the chunk."""
        self._collect(self._turn.feed(chunk))
        if isinstance(chunk, TextChunk) and not (self._text_as_thought or self._spent.raw):
            self.text_sent = True
            return chunk
        shown = (self._shown(each) for each in chunk.candidates if each.number == 0)
        candidates = tuple(each for each in shown if each.parts or each.extra)
        return Chunk(candidates, self.usage if chunk.usage else None, chunk.prompt_feedback, chunk.extra)

    def finish(self) -> None:
        """Raises the error of an answer that ended badly."""
        steps = self._turn.finish()
        self._collect(steps)
        failure = next((step for step in steps if isinstance(step, TurnFailed)), None)
        if failure is not None:
            raise failure.error

    def _collect(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, RunClosed):
                self._parts.extend(step.parts)

    def _shown(self, candidate: Candidate) -> Candidate:
        if candidate.content is None:
            return replace(candidate, finish_reason=None)
        parts = tuple(self._shown_part(part) for part in candidate.parts if not self._holds_back(part))
        self.calls_client = self.calls_client or any(isinstance(part.data, FunctionCall) for part in parts)
        return replace(candidate, finish_reason=None, content=replace(candidate.content, parts=parts))

    def _holds_back(self, part: Part) -> bool:
        return isinstance(part.data, FunctionCall) and self._is_hosted(part.data)

    def _shown_part(self, part: Part) -> Part:
        if not isinstance(part.data, str) or part.thought or not part.data:
            return part
        if self._text_as_thought:
            return Part(part.data, thought=True)
        gap = "" if self.text_sent else self._gap
        self.text_sent = True
        return replace(part, data=gap + part.data) if gap else part
