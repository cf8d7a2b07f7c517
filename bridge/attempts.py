"""One answer, asked for again as long as the client has seen nothing of it.

What Gemini says is held back until something in it can be seen: a text, a call, an image. Until then a
failed, empty or malformed answer costs only time, so the request is sent again: repaired, where Gemini said
what it did not like; after a pause, where it is overloaded; to another model, where the operator named one.
Thoughts are held back too, for a while, since most malformed calls come right behind them.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge.cooldowns import Cooldowns
from bridge.errors import (
    BridgeError,
    SchemaRefused,
    SignaturesRefused,
    ThinkingRefused,
    UpstreamMalformed,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamTruncated,
    UpstreamUnreachable,
)
from bridge.gemini.finish import Outcome
from bridge.gemini.fitting import Fitting
from bridge.gemini.repairs import with_simple_schemas, without_signatures, without_thinking
from bridge.gemini.types import Chunk, GenerateRequest, Part, TextChunk, Usage
from bridge.turn import Ended, Failed, Turn
from bridge.upstream.base import TICK, ChunkStream, Upstream

#: How long thoughts, and the head of a stream, are held back: a client hears something within ten seconds.
LONGEST_HOLD = 9.0
FIRST_PAUSE = 0.5
MODEL_REST = 30.0
MOST_CANDIDATES = 8

Repair = Callable[[GenerateRequest], GenerateRequest]

REPAIRS: Mapping[type[BridgeError], Repair] = {
    SignaturesRefused: without_signatures,
    SchemaRefused: with_simple_schemas,
    ThinkingRefused: without_thinking,
}
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
class Policy:
    attempts: int  #: in all, for each model
    longest_wait: float  #: of all pauses together


class Prepared(NamedTuple):
    """A request as one model takes it, and what makes its answer the client's."""

    request: GenerateRequest
    fitting: Fitting


class Attempts(ChunkStream):
    def __init__(
        self,
        upstream: Upstream,
        models: Sequence[str],
        prepare: Callable[[str], Prepared],
        policy: Policy,
        cooldowns: Cooldowns,
    ) -> None:
        self.notes: Counter[str] = Counter()
        self.discarded = Usage()  #: of answers that the client never saw; they are paid for all the same
        self._upstream = upstream
        self._prepare = prepare
        self._policy = policy
        self._cooldowns = cooldowns
        self._models = list(models)
        self._began = time.monotonic()
        self._tries = 0
        self._waited = 0.0
        self._repaired: set[type[BridgeError]] = set()
        self._shown = False
        self._closed = False
        self._stream: ChunkStream | None = None
        self._prepared = self._prepared_for_the_first_awake()

    @property
    def request(self) -> GenerateRequest:
        return self._prepared.request

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        while not self._closed:
            self._tries += 1
            try:
                self._stream = self._upstream.stream(self._prepared.request)
                feed, batches = self._prepared.fitting.feed, iter(self._stream)
                yield from self._until_something_shows(batches, feed)
                for chunks in batches:
                    yield list(map(feed, chunks))
                return
            except BridgeError as error:
                if self._stream is not None:
                    self._stream.close()
                if self._shown or self._closed:
                    raise
                wait = self._remedy(error)
                self.notes[f"retry.{error.kind}"] += 1
            yield from self._pause(wait)

    def close(self) -> None:
        self._closed = True
        if self._stream is not None:
            self._stream.close()

    # --- one attempt ---------------------------------------------------------------------------------

    def _until_something_shows(
        self, batches: Iterator[Sequence[Chunk]], feed: Callable[[Chunk], Chunk]
    ) -> Iterator[Sequence[Chunk]]:
        held: list[Chunk] = []
        try:
            for chunks in batches:
                held.extend(map(feed, chunks))
                if any(map(_shows, chunks)) or (held and self._held_long_enough()):
                    self._shown = True
                    yield held
                    return
                yield ()
            self._judge(held)
        except BridgeError:
            self.discarded += _usage(held)
            raise
        yield held  # whatever it is, it is all there will be

    def _held_long_enough(self) -> bool:
        return time.monotonic() - self._began > LONGEST_HOLD

    def _judge(self, held: Sequence[Chunk]) -> None:
        """An answer that ended without showing anything: raised as a failure if another might be better."""
        if self._tries >= self._policy.attempts:
            return
        turn = Turn(MOST_CANDIDATES)
        for chunk in held:
            turn.feed(chunk)
        for step in turn.finish():
            if isinstance(step, Failed):
                raise step.error
            if isinstance(step, Ended) and all(ending.outcome is Outcome.COMPLETE for ending in step.endings):
                raise UpstreamMalformed("Gemini's answer was empty.")

    # --- what to do next -----------------------------------------------------------------------------

    def _remedy(self, error: BridgeError) -> float:
        """How long to wait before the next attempt, which may be another request; raises where none would
        help."""
        if self._is_repaired(error):
            return 0.0
        if not isinstance(error, PASSING):
            raise error
        wait = self._wait(error)
        if self._tries < self._policy.attempts and self._waited + wait <= self._policy.longest_wait:
            self._waited += wait
            return wait
        if isinstance(error, OF_THE_MODEL):
            rest = MODEL_REST if error.retry_after is None else error.retry_after
            self._cooldowns.rest(_name(self._prepared.request.model), rest)
            self.notes[f"cooldown.{error.kind}"] += 1
            if self._models:
                self._fall_back()
                return 0.0
        raise error

    def _is_repaired(self, error: BridgeError) -> bool:
        repair = REPAIRS.get(type(error))
        if repair is None or type(error) in self._repaired:
            return False
        self._repaired.add(type(error))
        request = repair(self._prepared.request)
        if request is self._prepared.request:
            return False
        self._prepared = self._prepared._replace(request=request)
        self._tries -= 1
        return True

    def _wait(self, error: BridgeError) -> float:
        if error.retry_after is not None:
            return error.retry_after + random.uniform(0, 0.3)
        return float(FIRST_PAUSE * 2 ** (self._tries - 1) * random.uniform(0.7, 1.3))

    def _pause(self, seconds: float) -> Iterator[Sequence[Chunk]]:
        until = time.monotonic() + seconds
        while not self._closed and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, TICK))
            yield ()

    # --- other models --------------------------------------------------------------------------------

    def _prepared_for_the_first_awake(self) -> Prepared:
        """A model that rests is passed over, unless all do."""
        wanted = self._models[0]
        awake = next((model for model in self._models if not self._cooldowns.left(_name(model))), wanted)
        self._models = self._models[self._models.index(awake) + 1 :]
        if awake != wanted:
            self.notes["fallback"] += 1
        return self._prepare(awake)

    def _fall_back(self) -> None:
        self._prepared = self._prepare(self._models.pop(0))
        self._tries = 0
        self._repaired.clear()
        self.notes["fallback"] += 1


def _name(model: str) -> str:
    return f"model:{model}"


def _shows(chunk: Chunk) -> bool:
    return isinstance(chunk, TextChunk) or any(
        _is_seen(part) for candidate in chunk.candidates for part in candidate.parts
    )


def _is_seen(part: Part) -> bool:
    if isinstance(part.data, str):
        return bool(part.data) and not part.thought
    return part.data is not None


def _usage(chunks: Sequence[Chunk]) -> Usage:
    return next((chunk.usage for chunk in reversed(chunks) if chunk.usage is not None), Usage())
