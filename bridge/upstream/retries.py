"""Retries a request until the client has seen a part of the answer.

Chunks are held back until one has visible content: a text, a call or an image. Until then a failed, empty or
malformed answer costs only time, so the request is sent again: repaired, if Gemini's error names the problem;
after a pause, if Gemini is overloaded; to a fallback model or to another upstream, if the operator configured
one. Thoughts are held back too, for some seconds, because most malformed calls come right after them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from bridge.errors import (
    BridgeError,
    OutputLimitTooLow,
    UnknownModel,
    UpstreamMalformed,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamTimeout,
    UpstreamTruncated,
    UpstreamUnreachable,
)
from bridge.gemini.finish import Outcome
from bridge.gemini.repairs import REPAIRS, REPAIRS_FOR_AUTO_TIER, Repair
from bridge.gemini.service_tier import AUTO, STANDARD
from bridge.gemini.signatures import dummy_notes
from bridge.gemini.turn import Step, Turn, TurnEnded, TurnFailed
from bridge.gemini.types import Chunk, JsonObject, Part, TextChunk, Usage
from bridge.settings.routes import Target
from bridge.upstream.base import TICK, AnswerStream, ChunkStream
from bridge.upstream.cooldowns import Cooldowns, model_cooldown, rest_model
from bridge.upstream.prepared_attempt import PreparedAttempt

#: Seconds for which thoughts and the head of a stream are held back: clients expect bytes within ten seconds.
LONGEST_HOLD = 9.0
FIRST_PAUSE = 0.5
MOST_CANDIDATES = 8

#: Errors that a retry may avoid. Timeouts are not listed: the client has already waited too long.
RETRYABLE = (
    UpstreamMalformed,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamTruncated,
    UpstreamUnreachable,
)
#: Errors that a fallback model may avoid.
MODEL_SPECIFIC = (UpstreamOverloaded, UpstreamRateLimited)
#: Errors that another upstream may avoid.
UPSTREAM_SPECIFIC = (UpstreamTimeout, UpstreamUnreachable)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    attempts: int  #: the total for each model
    longest_wait: float  #: seconds, the sum of all pauses


class LearntFromErrors(Protocol):
    """Remembers what a refusal or a successful repair showed."""

    def model_gone(self, missing: Target, instead: Target) -> None: ...

    def repaired(self, repair: Repair, target: Target) -> None: ...


class RetryingStream(AnswerStream):
    """Call `prepare_first` before reading it."""

    asks_model = True

    def __init__(
        self,
        choices: Sequence[Sequence[Target]],
        prepare: Callable[[Target], PreparedAttempt],
        policy: RetryPolicy,
        cooldowns: Cooldowns,
        learnt: LearntFromErrors,
        tier: str = STANDARD,
        *,
        strict: bool = False,
    ) -> None:
        """A choice is a model, at each upstream that serves it, with its fallbacks; the next choice is used
        if no upstream has the model. `tier` is the service tier that the client requested. `strict` forbids
        repairs that lose a setting of the client."""
        super().__init__()
        self._prepare = prepare
        self._policy = policy
        self._cooldowns = cooldowns
        self._learnt = learnt
        self._choices = [list(targets) for targets in choices]
        self._targets: list[Target] = []
        self._tier = tier
        self._strict = strict
        self._repairs = REPAIRS_FOR_AUTO_TIER if tier == AUTO else REPAIRS
        self._began = time.monotonic()
        self._tries = 0
        self._waited = 0.0
        self._paused = 0.0  #: seconds of pauses and of failed attempts
        self._tried: list[Repair] = []  #: including repairs that changed nothing
        self._applied: list[Repair] = []
        self._shown = False
        self._visible = False
        self._closed = False
        self._stream: ChunkStream | None = None
        self._batches: Iterator[Sequence[Chunk]] = iter(())  #: of `_stream`
        self._feed: Callable[[Chunk], Chunk]

    def prepare_first(self) -> None:
        """Prepare the request for the first model; raises if that model cannot take the request."""
        self._take_next_choice()

    @property
    def waited(self) -> float:  # type: ignore[override]
        return self._paused + (self._stream.waited if self._stream is not None else 0.0)

    @property
    def losses(self) -> Sequence[str]:  # type: ignore[override]
        return [repair.loss for repair in self._applied if repair.loss]

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        """`chain` and `map` run in C: after the first visible chunk, a batch passes no generator here."""
        return chain.from_iterable(self._phases())

    def _phases(self) -> Iterator[Iterable[Sequence[Chunk]]]:
        yield self._retry_until_visible()
        if not self._visible:
            yield self._wait_for_answer_text()
        yield map(self._adapt, self._batches)

    def close(self) -> None:
        self._closed = True
        if self._stream is not None:
            self._stream.close()

    # --- one attempt ---------------------------------------------------------------------------------

    def _retry_until_visible(self) -> Iterator[Sequence[Chunk]]:
        while not self._closed:
            self._tries += 1
            try:
                self._start_attempt()
                yield from self._hold_until_visible(self._batches, self._feed)
                return
            except BridgeError as error:
                if self._stream is not None:
                    self._stream.close()
                if self._shown or self._closed:
                    raise
                failed = self.upstream
                wait = self._prepare_retry(error)
                self.replaced_errors.append((failed, error))
                self.notes[f"retry.{error.kind}"] += 1
            yield from self._pause(wait)

    def _start_attempt(self) -> None:
        self._paused, self._stream = self.waited, None
        self._stream = self._prepared.upstream.stream(self._prepared.request)
        self._feed, self._batches = self._prepared.new_feed(), iter(self._stream)

    def _adapt(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        return list(map(self._feed, chunks))

    def _hold_until_visible(
        self, batches: Iterator[Sequence[Chunk]], feed: Callable[[Chunk], Chunk]
    ) -> Iterator[Sequence[Chunk]]:
        held: list[Chunk] = []
        try:
            for chunks in batches:
                if chunks and not held:
                    self._learn_from_success(chunks[0])
                fed = list(map(feed, chunks))
                held.extend(fed)
                self._visible = any(map(is_visible, fed))
                if self._visible or (held and self._held_long_enough()):
                    self._shown = True
                    yield held
                    return
                yield ()
            self._check_ending(held)
        except BridgeError:
            self.discarded += _usage(held)
            raise
        self._visible = True
        yield held  # the answer is over, so nothing better will come

    def _wait_for_answer_text(self) -> Iterator[Sequence[Chunk]]:
        """The client has seen thoughts only; thinking may use up the whole output limit."""
        last: list[Chunk] = []
        for chunks in self._batches:
            fed = self._adapt(chunks)
            yield fed
            if any(map(is_visible, fed)):
                return
            last = fed or last
        self._check_output_limit(last)

    def _learn_from_success(self, first: Chunk) -> None:
        """The upstream accepted the request, so the repairs that it needed are worth remembering."""
        version = _extra(first).get("modelVersion")
        self.model_version = version if isinstance(version, str) else None
        request = self._prepared.request
        for repair in self._applied:
            if (
                repair.fact and not request.native
            ):  # values that a native client chose prove nothing about the model
                self._learnt.repaired(repair, self._prepared.target)

    def _held_long_enough(self) -> bool:
        return time.monotonic() - self._began > LONGEST_HOLD

    def _check_ending(self, held: Sequence[Chunk]) -> None:
        """Raises for an answer without visible content if a retry may help or the client needs the reason."""
        self._check_output_limit(held)
        if self._tries >= self._policy.attempts:
            return
        for step in _end_of(held):
            if isinstance(step, TurnFailed):
                raise step.error
            if isinstance(step, TurnEnded) and all(
                ending.outcome is Outcome.COMPLETE for ending in step.endings
            ):
                raise UpstreamMalformed("The model's answer was empty.")

    def _check_output_limit(self, chunks: Sequence[Chunk]) -> None:
        usage = _usage(chunks)
        if not self._prepared.adapter.output_floor or not usage.thoughts:
            return
        ended = [step for step in _end_of(chunks) if isinstance(step, TurnEnded)]
        if any(ending.outcome is Outcome.LENGTH for step in ended for ending in step.endings):
            raise OutputLimitTooLow(
                f"The model used all {usage.output} output tokens for thinking and wrote no answer. "
                "Raise the limit on output tokens, or request less thinking."
            )

    # --- after a failure -----------------------------------------------------------------------------

    def _prepare_retry(self, error: BridgeError) -> float:
        """Prepare the next attempt; returns the seconds to wait before it, or raises `error`."""
        if self._is_repaired(error) or self._is_replaced(error):
            return 0.0
        if isinstance(error, RETRYABLE):
            wait = self._wait(error)
            if self._tries < self._policy.attempts and self._waited + wait <= self._policy.longest_wait:
                self._waited += wait
                return wait
        if not (self._leaves_model(error) or self._leaves_upstream(error)):
            raise error
        return 0.0

    def _leaves_model(self, error: BridgeError) -> bool:
        if not isinstance(error, MODEL_SPECIFIC):
            return False
        self._rest(error)
        if not self._targets:
            return False
        self._fall_back()
        return True

    def _leaves_upstream(self, error: BridgeError) -> bool:
        """Whether another upstream answers instead of one that cannot be reached."""
        failed = self._prepared.target.upstream
        others = [target for target in self._targets if target.upstream != failed]
        if not others or not isinstance(error, UPSTREAM_SPECIFIC):
            return False
        self._rest(error)
        self._targets = others
        self._fall_back()
        return True

    def _rest(self, error: BridgeError) -> None:
        rest_model(self._cooldowns, self._prepared.target, error, self._prepared.request.service_tier)
        self.notes[f"cooldown.{error.kind}"] += 1

    def _is_repaired(self, error: BridgeError) -> bool:
        for repair in self._repairs.get(type(error), ()):
            if repair in self._tried or (self._strict and repair.loss):
                continue
            self._tried.append(repair)
            request = repair.apply(self._prepared.request)
            if request is not self._prepared.request:
                self._applied.append(repair)
                self.notes.update(dummy_notes(self._prepared.request.contents, request.contents))
                self._use(self._prepared._replace(request=request))
                self._tries -= 1
                self.notes.update(filter(None, (repair.note, repair.loss)))
                return True
        return False

    def _is_replaced(self, error: BridgeError) -> bool:
        """Replace a model that the upstream does not have: the same model at another upstream, then the next
        choice, then a fallback."""
        if not isinstance(error, UnknownModel) or not (self._choices or self._targets):
            return False
        missing = self._prepared.target
        elsewhere = bool(self._targets) and self._targets[0].model == missing.model
        learns = elsewhere or bool(self._choices)
        if self._choices and not elsewhere:
            self._take_next_choice()
        else:
            self._fall_back()
        if learns:
            self._learnt.model_gone(missing, self._prepared.target)
        self._reset_attempts()
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

    # --- other targets -------------------------------------------------------------------------------

    def _take_next_choice(self) -> None:
        """Skip a target in cool-down, unless its fallbacks are all in cool-down too."""
        targets = self._choices.pop(0)
        ready = next((each for each in targets if not self._is_resting(each)), targets[0])
        self._targets = targets[targets.index(ready) + 1 :]
        if ready != targets[0]:
            self.notes["fallback"] += 1
        self._use(self._prepare(ready))

    def _is_resting(self, target: Target) -> bool:
        return self._cooldowns.left(model_cooldown(target, self._tier)) > 0

    def _fall_back(self) -> None:
        self._use(self._prepare(self._targets.pop(0)))
        self._reset_attempts()
        self.notes["fallback"] += 1

    def _use(self, prepared: PreparedAttempt) -> None:
        self._prepared, self.request = prepared, prepared.request
        self.upstream = prepared.target.upstream

    def _reset_attempts(self) -> None:
        self._tries = 0
        self._tried.clear()
        self._applied.clear()


def is_visible(chunk: Chunk) -> bool:
    return isinstance(chunk, TextChunk) or any(
        _is_visible_part(part) for candidate in chunk.candidates for part in candidate.parts
    )


def _is_visible_part(part: Part) -> bool:
    if isinstance(part.data, str):
        return bool(part.data) and not part.thought
    return part.data is not None


def _end_of(chunks: Sequence[Chunk]) -> Iterator[Step]:
    """The last steps of the Turn for an answer of these chunks."""
    turn = Turn(MOST_CANDIDATES)
    for chunk in chunks:
        turn.feed(chunk)
    yield from turn.finish()


def _extra(chunk: Chunk) -> JsonObject:
    return chunk.source if isinstance(chunk, TextChunk) else chunk.extra


def _usage(chunks: Sequence[Chunk]) -> Usage:
    return next((chunk.usage for chunk in reversed(chunks) if chunk.usage is not None), Usage())
