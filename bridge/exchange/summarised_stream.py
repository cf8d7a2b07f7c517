"""Answers that must wait for a summary: the client gets heartbeats until it exists."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from bridge.context.summary_task import SummaryTask
from bridge.errors import UpstreamMalformed
from bridge.exchange.compaction import shown_text
from bridge.exchange.conversation_summaries import ConversationSummaries
from bridge.exchange.summaries import SummaryNeeded
from bridge.gemini.finish import FinishReason
from bridge.gemini.summary_part import CompactionWish, WrittenSummary, summary_turn
from bridge.gemini.types import MODEL, Candidate, Chunk, Content, GenerateRequest
from bridge.upstream.base import AnswerStream, Tick

Batches = Iterable[Sequence[Chunk]]
NOT_WRITTEN = "No summary of this conversation could be written; try again later"


class WaitingStream(AnswerStream):
    """Waits, and then opens the stream of the answer, whose reports it passes on."""

    asks_model = True

    def __init__(self) -> None:
        super().__init__()
        self._answer: AnswerStream | None = None
        self._waiting: Iterator[Tick] = iter(())
        self._waited = 0.0
        self._closed = False

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        return chain.from_iterable(self._phases())

    @abstractmethod
    def _phases(self) -> Iterator[Batches]: ...

    def _wait(self, waiting: Iterator[Tick]) -> Iterator[Tick]:
        self._waiting, began = waiting, time.monotonic()
        for tick in waiting:
            self._waited = time.monotonic() - began
            yield tick
        self._waited = time.monotonic() - began

    def _use(self, answer: AnswerStream) -> AnswerStream:
        """Take over what the stream reports; it may be closed already."""
        answer.notes.update(self.notes)
        answer.discarded += self.discarded
        self.notes, self._answer = answer.notes, answer
        return answer

    def close(self) -> None:
        self._closed = True
        if close := getattr(self._waiting, "close", None):
            close()
        if self._answer is not None:
            self._answer.close()
            self.discarded = self._answer.discarded

    @property
    def request(self) -> GenerateRequest | None:  # type: ignore[override]
        return None if self._answer is None else self._answer.request

    @property
    def model_version(self) -> str | None:  # type: ignore[override]
        return None if self._answer is None else self._answer.model_version

    @property
    def losses(self) -> Sequence[str]:  # type: ignore[override]
        return () if self._answer is None else self._answer.losses

    @property
    def waited(self) -> float:  # type: ignore[override]
        return self._waited + (0.0 if self._answer is None else self._answer.waited)


class SummarisedStream(WaitingStream):
    """An answer whose request fits into the window only with a summary."""

    def __init__(
        self, task: SummaryTask, summaries: ConversationSummaries, open_answer: Callable[[], AnswerStream]
    ) -> None:
        super().__init__()
        self._task = task
        self._summaries = summaries
        self._open_answer = open_answer

    def _phases(self) -> Iterator[Batches]:
        while self._answer is None and not self._closed:
            yield self._wait(self._summaries.written(self._task))
            try:
                yield self._use(self._open_answer())
            except SummaryNeeded as needed:
                self._task = needed.task


class CompactedStream(WaitingStream):
    """An answer that begins with a summary, because the client asks for one."""

    def __init__(
        self,
        task: SummaryTask,
        request: GenerateRequest,
        wish: CompactionWish,
        summaries: ConversationSummaries,
        open_answer: Callable[[GenerateRequest], AnswerStream],
    ) -> None:
        super().__init__()
        self._task = task
        self._request = request
        self._wish = wish
        self._summaries = summaries
        self._open_answer = open_answer

    def _phases(self) -> Iterator[Batches]:
        alone, summaries = self._wish.alone, self._summaries
        yield self._wait(summaries.written(self._task, is_answer=alone))
        made = summaries.text(self._task)
        text = None if made is None else shown_text(made, self._request, self._wish)
        if alone and text is None:
            self.discarded += summaries.spent
            raise summaries.error or UpstreamMalformed(NOT_WRITTEN)
        yield [[_chunk(WrittenSummary(text, summaries.spent, alone))]]
        if not alone and not self._closed:
            contents = self._request.contents if text is None else (summary_turn(text),)
            yield self._use(self._open_answer(replace(self._request, contents=contents)))


def _chunk(summary: WrittenSummary) -> Chunk:
    content = Content(MODEL, (summary.part,))
    if summary.alone:
        return Chunk((Candidate(content, FinishReason.STOP, 0),), summary.usage)
    return Chunk((Candidate(content, index=0),))
