"""A stream with a fixed text of the bridge, without a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridge.gemini.finish import FinishReason
from bridge.gemini.types import MODEL, Candidate, Chunk, Content, Part, Usage
from bridge.upstream.base import AnswerStream


class CannedStream(AnswerStream):
    asks_model = False

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        candidate = Candidate(Content(MODEL, (Part(self._text),)), FinishReason.STOP, 0)
        yield [Chunk((candidate,), Usage())]

    def close(self) -> None:
        pass
