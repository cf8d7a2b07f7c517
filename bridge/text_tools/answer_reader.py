"""Turns the texts of an answer's chunks into text, thoughts and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from bridge.gemini.finish import Outcome, outcome_of
from bridge.gemini.types import MODEL, Candidate, Chunk, Content, FunctionCall, Part, TextChunk
from bridge.text_tools.text_reader import TextReader


class AnswerReader:
    """Reads one answer, chunk by chunk. Text that may be a call is held back until a later chunk; the chunk
    with the finish reason releases all of it."""

    def __init__(
        self, new_text_reader: Callable[[], TextReader], *, text_beside_calls: bool, show_thoughts: bool
    ) -> None:
        """`text_beside_calls`: an answer with calls keeps its text. Otherwise all text waits for the end of
        the answer."""
        self._new_text_reader = new_text_reader
        self._text_beside_calls = text_beside_calls
        self._show_thoughts = show_thoughts
        self._candidates: dict[int, _CandidateReader] = {}

    def feed(self, chunk: Chunk) -> Chunk:
        if not chunk.candidates:
            return chunk
        candidates = tuple(self._reader(each.number).read(each) for each in chunk.candidates)
        if isinstance(chunk, TextChunk) and _is_text(candidates[0].parts, chunk.text):
            return chunk
        return Chunk(candidates, chunk.usage, chunk.prompt_feedback, chunk.extra)

    def _reader(self, number: int) -> _CandidateReader:
        reader = self._candidates.get(number)
        if reader is None:
            reader = self._candidates[number] = _CandidateReader(
                self._new_text_reader(), self._text_beside_calls, self._show_thoughts
            )
        return reader


def _is_text(parts: tuple[Part, ...], text: str) -> bool:
    return len(parts) == 1 and parts[0].data == text and not parts[0].thought


class _CandidateReader:
    def __init__(self, text_reader: TextReader, text_beside_calls: bool, show_thoughts: bool) -> None:
        self._text_reader = text_reader
        self._text_beside_calls = text_beside_calls
        self._show_thoughts = show_thoughts
        self._called = False
        self._texts: list[Part] = []  # until it is known whether the answer has calls

    def read(self, candidate: Candidate) -> Candidate:
        parts = [new for part in candidate.parts for new in self._read_part(part)]
        reason = candidate.finish_reason
        if reason is not None:
            parts += self._text_reader.finish(complete=outcome_of(reason) is Outcome.COMPLETE)
        if not self._text_beside_calls:
            parts = self._without_text_beside_calls(parts, last=reason is not None)
        shown = tuple(filter(None, map(self._shown, parts)))
        if candidate.content is None and not shown:
            return candidate
        content = candidate.content or Content(MODEL)
        return replace(candidate, content=replace(content, parts=shown))

    def _read_part(self, part: Part) -> Iterable[Part]:
        if not isinstance(part.data, str):
            return (*self._text_reader.finish(complete=False), part) if part.data is not None else (part,)
        if part.thought or not part.data:
            if part.data:
                self._text_reader.thought_reported()
            return (part,)
        parts = self._text_reader.feed(part.data)
        return (part,) if _is_text(tuple(parts), part.data) else parts

    def _without_text_beside_calls(self, parts: list[Part], *, last: bool) -> list[Part]:
        given: list[Part] = []
        for part in parts:
            self._called = self._called or isinstance(part.data, FunctionCall)
            is_text = isinstance(part.data, str) and not part.thought
            (self._texts if is_text else given).append(part)
        if self._called:
            self._texts.clear()
        elif last:
            given += self._texts
            self._texts.clear()
        return given

    def _shown(self, part: Part) -> Part | None:
        """The part without its thought, if thoughts are not shown. A signature stays."""
        if self._show_thoughts or not part.thought or not isinstance(part.data, str):
            return part
        return None if part.signature is None else replace(part, data="")
