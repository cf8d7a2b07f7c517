"""Splits an answer into chunks and encodes them as Google does.

A Script holds the pieces of one candidate; a Scene holds the scripts of all candidates for one request; a
Reply is the status and the bytes of the HTTP response. `script_writer` decides the content.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, cycle, zip_longest
from typing import Any

import orjson

from bridge.gemini.types import EMPTY, JsonObject
from bridge.upstream.demo.ask import CHARACTERS_PER_TOKEN, TOKENS_PER_MEDIUM, DemoRequest, tokens

Fields = dict[str, Any]
Piece = tuple[Fields, ...]  #: the parts of one chunk


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Iterator[bytes | float]  #: bytes to send, and pauses in seconds


@dataclass(frozen=True, slots=True)
class Script:
    pieces: tuple[Piece, ...] = ()
    finish: str | None = "STOP"
    closing: JsonObject = EMPTY  #: fields beside the last piece: sources, ratings, a finish message

    def candidates(self, index: int) -> Iterator[Fields]:
        pieces = self.pieces or ((),)
        for piece in pieces[:-1]:
            yield _candidate(index, piece)
        ending = {} if self.finish is None else {"finishReason": self.finish}
        yield _candidate(index, pieces[-1]) | ending | dict(self.closing)

    def limited(self, most_tokens: int) -> Script:
        """The script cut at the token limit. Thoughts count; a call beyond the limit is left out."""
        room = most_tokens * CHARACTERS_PER_TOKEN
        if sum(size(part) for piece in self.pieces for part in piece) <= room:
            return self
        return Script(tuple(_within(self.pieces, room)), "MAX_TOKENS")


def _candidate(index: int, piece: Piece) -> Fields:
    content: Fields = {"parts": list(piece), "role": "model"} if piece else {"role": "model"}
    return {"content": content, "index": index}


def _within(pieces: Iterable[Piece], room: int) -> Iterator[Piece]:
    for part in chain.from_iterable(pieces):
        if size(part) <= room:
            yield (part,)
        elif part.get("text"):
            yield (part | {"text": part["text"][:room]},)
        room -= size(part)
        if room <= 0:
            return


def size(part: JsonObject) -> int:
    """In characters; tokens are counted as characters divided by CHARACTERS_PER_TOKEN."""
    if "text" in part:
        return len(part["text"])
    if "inlineData" in part:
        return TOKENS_PER_MEDIUM * CHARACTERS_PER_TOKEN
    return sum(len(orjson.dumps(value)) for key, value in part.items() if key != "thoughtSignature")


class _UsageCounter:
    """The usage so far: Gemini reports running totals with every chunk."""

    def __init__(self, prompt: int) -> None:
        self._prompt = prompt
        self._output = 0
        self._thoughts = 0

    def add(self, part: JsonObject) -> None:
        if part.get("thought"):
            self._thoughts += size(part)
        else:
            self._output += size(part)

    def totals(self) -> Fields:
        output, thoughts = tokens(self._output), tokens(self._thoughts)
        counts = {
            "promptTokenCount": self._prompt,
            "candidatesTokenCount": output,
            "thoughtsTokenCount": thoughts,
        }
        return {
            **{name: count for name, count in counts.items() if count},
            "totalTokenCount": self._prompt + output + thoughts,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": self._prompt}],
        }


@dataclass(frozen=True, slots=True)
class Scene:
    ask: DemoRequest
    scripts: tuple[Script, ...]

    def rewritten(self, change: Callable[[Script], Script]) -> Scene:
        return replace(self, scripts=tuple(map(change, self.scripts)))

    def unfinished(self) -> Scene:
        """The answer without its last piece and without a finish reason."""
        return self.rewritten(lambda script: Script(script.pieces[:-1] or script.pieces, finish=None))

    def chunks(self) -> Iterator[Fields]:
        usage = _UsageCounter(self.ask.prompt_tokens)
        by_candidate = [script.candidates(index) for index, script in enumerate(self.scripts)]
        for candidate in filter(None, chain.from_iterable(zip_longest(*by_candidate))):
            for part in candidate["content"].get("parts", ()):
                usage.add(part)
            yield self.chunk(candidates=[candidate], usageMetadata=usage.totals())

    def chunk(self, **fields: Any) -> Fields:
        answer_id = base64.urlsafe_b64encode(self.ask.digest[:16]).decode().rstrip("=")
        return {**fields, "modelVersion": self.ask.model, "responseId": answer_id}

    def pauses(self) -> Iterator[float]:
        """20 to 40 ms, irregular."""
        return (0.020 + byte % 21 / 1000 for byte in cycle(self.ask.digest))

    def reply(self) -> Reply:
        return Reply(200, paced(self.chunks(), self.pauses()))


def paced(chunks: Iterable[JsonObject], pauses: Iterable[float]) -> Iterator[bytes | float]:
    for chunk, pause in zip(chunks, pauses, strict=False):
        yield pause
        yield sse(chunk)


def sse(chunk: JsonObject) -> bytes:
    return b"data: " + orjson.dumps(chunk, default=dict) + b"\r\n\r\n"
