"""Converts Gemini's chunks to neutral steps: the part of streaming that all protocols share.

Chunks are deltas. Neighbouring text parts form one run, a run of thoughts ends where the answer begins, calls
arrive whole, usage arrives late, and the stream may stop at any chunk. A run may hold several parts, since a
signed part is never joined with another. No IO, no client protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from bridge.errors import BridgeError, UpstreamMalformed, UpstreamTruncated
from bridge.gemini.finish import FinishReason, Outcome, outcome_of
from bridge.gemini.types import EMPTY, Candidate, Chunk, FunctionCall, JsonObject, Part, TextChunk, Usage


class RunKind(Enum):
    TEXT = auto()
    THOUGHT = auto()
    CALL = auto()
    OTHER = auto()  #: media, executed code and unknown parts; they arrive whole, like calls


class TurnStarted(NamedTuple):
    """The first chunk arrived."""


class RunOpened(NamedTuple):
    """A run starts. `part` is the whole run if it is a call or another part that arrives whole."""

    candidate: int
    run: int
    kind: RunKind
    part: Part | None


class TextAdded(NamedTuple):
    candidate: int
    run: int
    kind: RunKind
    text: str


class PartSigned(NamedTuple):
    """A part of the run is signed. `length` is the length of its text, which the steps before contained."""

    candidate: int
    run: int
    kind: RunKind
    signature: str
    length: int = 0


class RunClosed(NamedTuple):
    """A run ended. `parts` is the whole run in the form in which a later request must return it to Gemini."""

    candidate: int
    run: int
    kind: RunKind
    parts: tuple[Part, ...]
    last: bool = False  #: the end of the answer closed it, and no later run


class MetadataReceived(NamedTuple):
    """Fields beside the parts: log probabilities, sources, safety ratings."""

    candidate: int
    fields: Mapping[str, Any]


class Ending(NamedTuple):
    candidate: int
    outcome: Outcome
    called: bool  #: the candidate called a tool; Gemini reports STOP for this too


class TurnEnded(NamedTuple):
    endings: tuple[Ending, ...]
    usage: Usage


class TurnFailed(NamedTuple):
    error: BridgeError


Step = (
    TurnStarted | RunOpened | TextAdded | PartSigned | RunClosed | MetadataReceived | TurnEnded | TurnFailed
)


class Turn:
    """One answer: `feed` every chunk, then `finish`. Candidates beyond `max_candidates` are ignored.

    `any_finish_reason_ends`: the client reads Gemini's finish reasons itself, so none of them is a failure.
    """

    def __init__(self, max_candidates: int = 1, *, any_finish_reason_ends: bool = False) -> None:
        self._usage_fields: JsonObject = EMPTY
        self._max_candidates = max_candidates
        self._any_reason = any_finish_reason_ends
        self._candidates: dict[int, _CandidateRuns] = {}
        self._begun = False
        self.block_reason: str | None = None  #: why Gemini refused the prompt

    @property
    def usage(self) -> Usage:
        return Usage(self._usage_fields)

    @property
    def finish_reasons(self) -> tuple[str, ...]:
        """The finish reasons received so far."""
        reasons = (self._candidates[number].reason for number in sorted(self._candidates))
        return tuple(reason[:64] for reason in reasons if reason is not None)

    def finish_reason(self, candidate: int) -> str:
        return self._candidates[candidate].reason or ""

    def feed(self, chunk: Chunk) -> list[Step]:
        steps: list[Step] = []
        if not self._begun:
            self._begun = True
            steps.append(TurnStarted())
        if isinstance(chunk, TextChunk):
            self._usage_fields = chunk.source.get("usageMetadata", self._usage_fields)
            (self._candidates.get(0) or self._runs_of(0)).add_text(chunk.text, steps)
            return steps
        if chunk.usage is not None:
            self._usage_fields = chunk.usage.raw
        if chunk.prompt_feedback:
            self.block_reason = chunk.prompt_feedback.get("blockReason") or self.block_reason
        for candidate in chunk.candidates:
            if candidate.number < self._max_candidates:
                self._runs_of(candidate.number).feed(candidate, steps)
        return steps

    def _runs_of(self, number: int) -> _CandidateRuns:
        runs = self._candidates.get(number)
        if runs is None:
            runs = self._candidates[number] = _CandidateRuns(number)
        return runs

    def finish(self) -> list[Step]:
        """The last steps, after the stream ended. An answer without a finish reason failed; its open run
        stays open."""
        runs = [self._candidates[number] for number in sorted(self._candidates)]
        if self.block_reason is not None:
            runs = runs or [self._runs_of(0)]
            for each in runs:
                each.mark_blocked()
        error = next(filter(None, (each.failure(self._any_reason) for each in runs)), None)
        if not runs:
            error = UpstreamTruncated("Gemini closed the stream before it answered")
        if error is not None:
            return [TurnFailed(error)]
        steps: list[Step] = []
        for each in runs:
            each.close(steps, last=True)
        return [*steps, TurnEnded(tuple(each.ending() for each in runs), self.usage)]


class _CandidateRuns:
    """The runs of one candidate."""

    def __init__(self, candidate: int) -> None:
        self._candidate = candidate
        self._run = -1
        self._open: RunKind | None = None
        self._parts: list[Part] = []
        self._pieces: list[str] = []  # unsigned text that is not yet a part
        self.reason: str | None = None
        self._called = False

    def feed(self, candidate: Candidate, steps: list[Step]) -> None:
        for part in candidate.parts:
            if isinstance(part.data, str):
                self._add_text_part(part, part.data, steps)
            elif part.data is not None or part.signature or part.extra:
                self._add_whole_part(part, steps)
        if candidate.extra:
            steps.append(MetadataReceived(self._candidate, candidate.extra))
        if candidate.finish_reason is not None:
            self.reason = candidate.finish_reason

    def add_text(self, text: str, steps: list[Step], kind: RunKind = RunKind.TEXT) -> None:
        """Add unsigned text, which may be joined with the text before it."""
        if self._open is not kind:
            self._start(kind, None, steps)
        steps.append(TextAdded(self._candidate, self._run, kind, text))
        self._pieces.append(text)

    def _add_text_part(self, part: Part, text: str, steps: list[Step]) -> None:
        kind = RunKind.THOUGHT if part.thought else RunKind.TEXT
        if part.signature is None and not part.extra:
            if text:
                self.add_text(text, steps, kind)
            return
        if self._open is not kind:
            self._start(kind, None, steps)
        if text:
            steps.append(TextAdded(self._candidate, self._run, kind, text))
        self._flush_text()
        self._parts.append(part)
        if part.signature is not None:
            steps.append(PartSigned(self._candidate, self._run, kind, part.signature, len(text)))

    def _add_whole_part(self, part: Part, steps: list[Step]) -> None:
        kind = RunKind.CALL if isinstance(part.data, FunctionCall) else RunKind.OTHER
        self._called = self._called or kind is RunKind.CALL
        self._start(kind, part, steps)
        self._parts.append(part)
        if part.signature is not None:
            steps.append(PartSigned(self._candidate, self._run, kind, part.signature))
        self.close(steps)

    def _start(self, kind: RunKind, part: Part | None, steps: list[Step]) -> None:
        self.close(steps)
        self._run += 1
        self._open = kind
        steps.append(RunOpened(self._candidate, self._run, kind, part))

    def _flush_text(self) -> None:
        if self._pieces:
            self._parts.append(Part("".join(self._pieces), thought=self._open is RunKind.THOUGHT))
            self._pieces = []

    def close(self, steps: list[Step], *, last: bool = False) -> None:
        if self._open is None:
            return
        self._flush_text()
        steps.append(RunClosed(self._candidate, self._run, self._open, tuple(self._parts), last))
        self._open, self._parts = None, []

    def mark_blocked(self) -> None:
        """Gemini blocked the prompt: set the finish reason, if the candidate has none."""
        self.reason = self.reason or FinishReason.SAFETY

    def failure(self, any_finish_reason_ends: bool) -> BridgeError | None:
        if self.reason is None:
            return UpstreamTruncated("Gemini's answer stopped in the middle, without a finish reason")
        if outcome_of(self.reason) is Outcome.BROKEN and not (self._called or any_finish_reason_ends):
            return UpstreamMalformed(f"Gemini ended its answer with {self.reason}")
        return None

    def ending(self) -> Ending:
        assert self.reason is not None
        return Ending(self._candidate, outcome_of(self.reason), self._called)
