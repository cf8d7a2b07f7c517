"""One answer, asked for again as long as the client has seen nothing of it.

What Gemini says is held back until something in it can be seen: a text, a call, an image. Until then a
failed, empty or malformed answer costs only time, so the request is sent again: repaired, where Gemini said
what it did not like; after a pause, where it is overloaded; to another model, where the operator named one.
Thoughts are held back too, for a while, since most malformed calls come right behind them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol

from bridge.errors import (
    BridgeError,
    OutputLimitTooLow,
    UnknownModel,
    UpstreamMalformed,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamTruncated,
    UpstreamUnreachable,
)
from bridge.gemini.finish import Outcome
from bridge.gemini.model_adapter import AnswerAdapter
from bridge.gemini.repairs import REPAIRS, REPAIRS_FOR_AUTO_TIER, Repair
from bridge.gemini.service_tier import AUTO, FLEX, STANDARD
from bridge.gemini.signatures import dummy_notes
from bridge.gemini.turn import Step, Turn, TurnEnded, TurnFailed
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject, Part, TextChunk, Usage
from bridge.upstream.base import TICK, AnswerStream, ChunkStream, Upstream
from bridge.upstream.cooldowns import Cooldowns

#: How long thoughts, and the head of a stream, are held back: a client hears something within ten seconds.
LONGEST_HOLD = 9.0
FIRST_PAUSE = 0.5
MODEL_REST = 30.0
MOST_CANDIDATES = 8

#: What may be otherwise the next time. A timeout is not among them: it has used up the client's patience.
PASSING = (
    UpstreamMalformed,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamTruncated,
    UpstreamUnreachable,
)
#: What another model may not suffer from.
OF_THE_MODEL = (UpstreamOverloaded, UpstreamRateLimited)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    attempts: int  #: in all, for each model
    longest_wait: float  #: of all pauses together


class PreparedAttempt(NamedTuple):
    """A request as one model takes it, and what makes its answer the client's."""

    request: GenerateRequest
    adapter: AnswerAdapter


class LearntFromErrors(Protocol):
    """Who is told what a refusal taught."""

    def model_gone(self, model: str, instead: str) -> None: ...

    def repaired(self, repair: Repair, model: str) -> None: ...


class RetryingStream(AnswerStream):
    """`prepare_first` must be called before it is read."""

    asks_model = True

    def __init__(
        self,
        upstream: Upstream,
        choices: Sequence[Sequence[str]],
        prepare: Callable[[str], PreparedAttempt],
        policy: RetryPolicy,
        cooldowns: Cooldowns,
        lessons: LearntFromErrors,
        tier: str = STANDARD,
    ) -> None:
        """Each choice is asked if the one before does not exist: a model, and its fallbacks. `tier` is the
        service tier that the client wished for."""
        super().__init__()
        self._upstream = upstream
        self._prepare = prepare
        self._policy = policy
        self._cooldowns = cooldowns
        self._learnt = lessons
        self._choices = [list(models) for models in choices]
        self._models: list[str] = []
        self._tier = tier
        self._repairs = REPAIRS_FOR_AUTO_TIER if tier == AUTO else REPAIRS
        self._began = time.monotonic()
        self._tries = 0
        self._waited = 0.0
        self._paused = 0.0  #: seconds between attempts, and in those that failed
        self._tried: list[Repair] = []  #: whether or not they changed anything
        self._applied: list[Repair] = []
        self._shown = False
        self._visible = False
        self._closed = False
        self._stream: ChunkStream | None = None
        self._batches: Iterator[Sequence[Chunk]] = iter(())  #: of that stream
        self._feed: Callable[[Chunk], Chunk]

    def prepare_first(self) -> None:
        """Prepare the first model's request; raises if the request cannot be sent to it."""
        self._take_next_choice()

    @property
    def waited(self) -> float:  # type: ignore[override]
        return self._paused + (self._stream.waited if self._stream is not None else 0.0)

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        """The phases are chained in C: once the answer shows, a batch passes through no generator here."""
        return chain.from_iterable(self._phases())

    def _phases(self) -> Iterator[Iterable[Sequence[Chunk]]]:
        yield self._until_an_attempt_shows()
        if not self._visible:
            yield self._until_an_answer_shows()
        yield map(self._adapt, self._batches)

    def close(self) -> None:
        self._closed = True
        if self._stream is not None:
            self._stream.close()

    # --- one attempt ---------------------------------------------------------------------------------

    def _until_an_attempt_shows(self) -> Iterator[Sequence[Chunk]]:
        while not self._closed:
            self._tries += 1
            try:
                self._start_attempt()
                yield from self._until_something_shows(self._batches, self._feed)
                return
            except BridgeError as error:
                if self._stream is not None:
                    self._stream.close()
                if self._shown or self._closed:
                    raise
                wait = self._remedy(error)
                self.notes[f"retry.{error.kind}"] += 1
            yield from self._pause(wait)

    def _start_attempt(self) -> None:
        self._paused, self._stream = self.waited, None
        self._stream = self._upstream.stream(self._prepared.request)
        self._feed, self._batches = self._prepared.adapter.feed, iter(self._stream)

    def _adapt(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        return list(map(self._feed, chunks))

    def _until_something_shows(
        self, batches: Iterator[Sequence[Chunk]], feed: Callable[[Chunk], Chunk]
    ) -> Iterator[Sequence[Chunk]]:
        held: list[Chunk] = []
        try:
            for chunks in batches:
                if chunks and not held:
                    self._accepted(chunks[0])
                held.extend(map(feed, chunks))
                self._visible = any(map(_shows, chunks))
                if self._visible or (held and self._held_long_enough()):
                    self._shown = True
                    yield held
                    return
                yield ()
            self._judge(held)
        except BridgeError:
            self.discarded += _usage(held)
            raise
        self._visible = True
        yield held  # whatever it is, it is all there will be

    def _until_an_answer_shows(self) -> Iterator[Sequence[Chunk]]:
        """Thoughts have been shown, and no answer yet: they may use up all that it was allowed to have."""
        last: list[Chunk] = []
        for chunks in self._batches:
            fed = self._adapt(chunks)
            yield fed
            if any(map(_shows, chunks)):
                return
            last = fed or last
        self._judge_length(last)

    def _accepted(self, first: Chunk) -> None:
        """The upstream took the request: what had to be changed for it is worth remembering."""
        version = _extra(first).get("modelVersion")
        self.model_version = version if isinstance(version, str) else None
        request = self._prepared.request
        for repair in self._applied:
            if repair.fact and not request.native:  # a native client's own values prove nothing about a model
                self._learnt.repaired(repair, request.model)

    def _held_long_enough(self) -> bool:
        return time.monotonic() - self._began > LONGEST_HOLD

    def _judge(self, held: Sequence[Chunk]) -> None:
        """An answer that ended without showing anything: raised as a failure if another might be better, or
        if the client must hear why."""
        self._judge_length(held)
        if self._tries >= self._policy.attempts:
            return
        for step in _finished(held):
            if isinstance(step, TurnFailed):
                raise step.error
            if isinstance(step, TurnEnded) and all(
                ending.outcome is Outcome.COMPLETE for ending in step.endings
            ):
                raise UpstreamMalformed("Gemini's answer was empty.")

    def _judge_length(self, chunks: Sequence[Chunk]) -> None:
        usage = _usage(chunks)
        if not self._prepared.adapter.output_floor or not usage.thoughts:
            return
        ended = [step for step in _finished(chunks) if isinstance(step, TurnEnded)]
        if any(ending.outcome is Outcome.LENGTH for step in ended for ending in step.endings):
            raise OutputLimitTooLow(
                f"The model used all {usage.output} output tokens for thinking, and none were left for the "
                "answer. Allow more output tokens, or ask for less thinking."
            )

    # --- what to do next -----------------------------------------------------------------------------

    def _remedy(self, error: BridgeError) -> float:
        """How long to wait before the next attempt, which may be another request; raises where none would
        help."""
        if self._is_repaired(error) or self._is_replaced(error):
            return 0.0
        if not isinstance(error, PASSING):
            raise error
        wait = self._wait(error)
        if self._tries < self._policy.attempts and self._waited + wait <= self._policy.longest_wait:
            self._waited += wait
            return wait
        if isinstance(error, OF_THE_MODEL):
            rest = MODEL_REST if error.retry_after is None else error.retry_after
            request = self._prepared.request
            self._cooldowns.rest(_name(request.model, request.service_tier), rest)
            self.notes[f"cooldown.{error.kind}"] += 1
            if self._models:
                self._fall_back()
                return 0.0
        raise error

    def _is_repaired(self, error: BridgeError) -> bool:
        for repair in self._repairs.get(type(error), ()):
            if repair in self._tried:
                continue
            self._tried.append(repair)
            request = repair.apply(self._prepared.request)
            if request is not self._prepared.request:
                self._applied.append(repair)
                self.notes.update(dummy_notes(self._prepared.request.contents, request.contents))
                self._take(self._prepared._replace(request=request))
                self._tries -= 1
                if repair.note:
                    self.notes[repair.note] += 1
                return True
        return False

    def _is_replaced(self, error: BridgeError) -> bool:
        """By the next choice, where the upstream does not have the model."""
        if not isinstance(error, UnknownModel) or not (self._choices or self._models):
            return False
        gone = self._prepared.request.model
        if self._choices:
            self._take_next_choice()
            self._learnt.model_gone(gone, self._prepared.request.model)
        else:
            self._fall_back()
        self._start_over()
        self.notes["model.gone"] += 1
        return True

    def _wait(self, error: BridgeError) -> float:
        if error.retry_after is not None:
            return error.retry_after + random.uniform(0, 0.3)
        return float(FIRST_PAUSE * 2 ** (self._tries - 1) * random.uniform(0.7, 1.3))

    def _pause(self, seconds: float) -> Iterator[Sequence[Chunk]]:
        until = time.monotonic() + seconds
        while not self._closed and (left := until - time.monotonic()) > 0:
            tick = min(left, TICK)
            time.sleep(tick)
            self._paused += tick
            yield ()

    # --- other models --------------------------------------------------------------------------------

    def _take_next_choice(self) -> None:
        """A model that rests is passed over, unless all of its fallbacks do, too."""
        models = self._choices.pop(0)
        names = {model: _name(model, self._tier) for model in models}
        awake = next((model for model in names if not self._cooldowns.left(names[model])), models[0])
        self._models = models[models.index(awake) + 1 :]
        if awake != models[0]:
            self.notes["fallback"] += 1
        self._take(self._prepare(awake))

    def _fall_back(self) -> None:
        self._take(self._prepare(self._models.pop(0)))
        self._start_over()
        self.notes["fallback"] += 1

    def _take(self, prepared: PreparedAttempt) -> None:
        self._prepared, self.request = prepared, prepared.request

    def _start_over(self) -> None:
        self._tries = 0
        self._tried.clear()
        self._applied.clear()


def _name(model: str, tier: str | None) -> str:
    """Of what rests. Where the flex tier has no room for a model, the others may have."""
    return f"model:{model}:{FLEX}" if tier == FLEX else f"model:{model}"


def _shows(chunk: Chunk) -> bool:
    return isinstance(chunk, TextChunk) or any(
        _is_seen(part) for candidate in chunk.candidates for part in candidate.parts
    )


def _is_seen(part: Part) -> bool:
    if isinstance(part.data, str):
        return bool(part.data) and not part.thought
    return part.data is not None


def _finished(chunks: Sequence[Chunk]) -> Iterator[Step]:
    """How an answer of these chunks ends."""
    turn = Turn(MOST_CANDIDATES)
    for chunk in chunks:
        turn.feed(chunk)
    yield from turn.finish()


def _extra(chunk: Chunk) -> JsonObject:
    return chunk.source if isinstance(chunk, TextChunk) else chunk.extra


def _usage(chunks: Sequence[Chunk]) -> Usage:
    return next((chunk.usage for chunk in reversed(chunks) if chunk.usage is not None), Usage())
