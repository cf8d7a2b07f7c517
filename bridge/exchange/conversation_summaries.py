"""Finds the summaries of a conversation, and has missing ones written: each once, whatever worker needs it.

A summary that a request needs is written while its client waits, and another request that needs the same one
waits for it. A summary that will be needed soon is written in the background.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from bridge.context.summary_task import SummaryTask
from bridge.errors import BridgeError, LimitReached, NotAllowed
from bridge.exchange.summaries import Summaries, SummaryNeeded, SummarySource
from bridge.exchange.summariser import Summariser
from bridge.gemini.types import Usage
from bridge.ids_and_clock import random_id
from bridge.interruption import Interruption
from bridge.observe.record import Record
from bridge.state.errors import StorageError
from bridge.state.summary_store import MOST_FAILURES, Claim
from bridge.upstream.base import Tick

T = TypeVar("T")

log = logging.getLogger(__name__)

#: The protocol of the log lines, metrics and usage rows of requests for summaries.
PROTOCOL = "context_summary"
FAILED = "context.summary_failed"  #: the note for a summary that could not be written
STORE_FAILED = "context.store_failed"  #: the note for a store that could not be used
CLAIM_LASTS = 60.0  #: seconds
CLAIM_RENEWED = 20.0
POLL = 0.5  #: seconds between two looks at a summary that somebody else writes


class ConversationSummaries(SummarySource):
    """The summaries of one request's conversation."""

    def __init__(self, summaries: Summaries, summariser: Summariser, record: Record) -> None:
        self._summaries = summaries
        self._store = summaries.store
        self._owner = summariser.caller.owner
        self._summariser = summariser
        self._record = record
        self._made: dict[bytes, str] = {}
        self._given_up: set[bytes] = set()
        self._failures: Counter[bytes] = Counter()
        self.may_wait = True  #: whether the request can wait for a summary
        self.spent = Usage()  #: of all attempts
        self.error: BridgeError | None = None  #: why the last summary could not be written

    @property
    def owner(self) -> str:
        return self._owner

    def known(self, digests: Sequence[bytes]) -> dict[bytes, str]:
        return {**self._found(digests), **self._made}

    def _found(self, digests: Sequence[bytes]) -> Mapping[bytes, str]:
        nothing: Mapping[bytes, str] = {}
        return self._stored(lambda: self._store.find(self._owner, digests), nothing)

    def need(self, task: SummaryTask) -> None:
        if self.may_wait and task.digest not in self._given_up:
            raise SummaryNeeded(task)

    def text(self, task: SummaryTask) -> str | None:
        """The summary, after `written`; None if it could not be written."""
        return self._made.get(task.digest)

    def written(self, task: SummaryTask, *, is_answer: bool = False) -> Iterator[Tick]:
        """Have the summary written, or wait until somebody else has done so; an empty batch for each tick.

        Each attempt is a request of its own, with its own record and usage, and a few failures are repeated.
        `is_answer`: the client asked for nothing but the summary, so the usage is this request's, and the
        client decides about another attempt."""
        maker = random_id("maker_")
        while task.digest not in self._made and task.digest not in self._given_up:
            claim = self._claim(task, maker)
            if claim is Claim.OTHERS:
                time.sleep(POLL)
                yield ()
            elif claim is Claim.GIVEN_UP:
                self._given_up.add(task.digest)
            elif claim is Claim.MADE:
                self._take(task)
            else:
                yield from self._attempt(task, maker, is_answer)

    def prepare(self, task: SummaryTask) -> None:
        summariser = replace(
            self._summariser, caller=replace(self._summariser.caller, interruption=Interruption())
        )
        work = ConversationSummaries(self._summaries, summariser, self._record)
        self._summaries.in_background(task.digest, lambda: work._write_once(task))

    def _write_once(self, task: SummaryTask) -> None:
        maker = random_id("maker_")
        if self._claim(task, maker) is Claim.MINE:
            for _ in self._attempt(task, maker, False):
                pass

    # --- one attempt ---------------------------------------------------------------------------------

    def _attempt(self, task: SummaryTask, maker: str, is_answer: bool) -> Iterator[Tick]:
        failed = False
        try:
            writing = self._asked(task) if is_answer else self._asked_apart(task)
            text = yield from self._renewing(task, maker, writing)
            self._made[task.digest] = text
            self._stored(lambda: self._store.keep(self._owner, task.digest, text), None)
        except BridgeError as error:
            failed = not isinstance(error, LimitReached | NotAllowed)
            self._failed(task, error, for_good=is_answer or not failed)
        finally:
            if task.digest not in self._made:
                self._stored(
                    lambda: self._store.release(self._owner, task.digest, maker, failed=failed), None
                )

    def _renewing(
        self, task: SummaryTask, maker: str, writing: Generator[Tick, None, str]
    ) -> Generator[Tick, None, str]:
        """The writing, which extends the claim from time to time."""
        renewed = time.monotonic()
        try:
            while True:
                yield next(writing)
                if time.monotonic() - renewed > CLAIM_RENEWED:
                    renewed = time.monotonic()
                    self._claim(task, maker)
        except StopIteration as end:
            text: str = end.value
            return text
        finally:
            writing.close()

    def _asked(self, task: SummaryTask) -> Generator[Tick, None, str]:
        return self._summariser.write(task, self._record, self._spend)

    def _spend(self, usage: Usage) -> None:
        self.spent += usage

    def _asked_apart(self, task: SummaryTask) -> Generator[Tick, None, str]:
        """As a request of its own."""
        record = self._own_record()

        def spent(usage: Usage) -> None:
            record.count(usage)
            self._spend(usage)

        try:
            self._summariser.caller.book_request(record)
            return (yield from self._summariser.write(task, record, spent))
        except BridgeError as error:
            record.status = error.status
            record.failed(error)
            raise
        except GeneratorExit:
            record.unfinished(lost=False)
            raise
        finally:
            record.tell()

    def _own_record(self) -> Record:
        of = self._record
        record = Record(of.request_id, of.method, of.path, of.observers, client=of.client, session=of.session)
        record.agent, record.conversation, record.key = of.agent, of.conversation, of.key
        record.protocol, record.model, record.status = PROTOCOL, of.model, 200
        return record

    def _failed(self, task: SummaryTask, error: BridgeError, *, for_good: bool) -> None:
        self.error = error
        self._record.note([FAILED])
        self._failures[task.digest] += 1
        if for_good or self._failures[task.digest] >= MOST_FAILURES:
            self._given_up.add(task.digest)

    # --- the store -----------------------------------------------------------------------------------

    def _claim(self, task: SummaryTask, maker: str) -> Claim:
        return self._stored(
            lambda: self._store.claim(self._owner, task.digest, maker, CLAIM_LASTS), Claim.MINE
        )

    def _take(self, task: SummaryTask) -> None:
        found = self._found([task.digest])
        if task.digest in found:
            self._made[task.digest] = found[task.digest]
        else:
            self._given_up.add(task.digest)

    def _stored(self, work: Callable[[], T], otherwise: T) -> T:
        """A store that fails is an empty store."""
        try:
            return work()
        except StorageError as error:
            log.warning("summary store not usable", extra={"reason": error.reason})
            self._record.note([STORE_FAILED])
            return otherwise
