"""How an answer is laid out in chunks and put on the wire, as Google would.

A Script is what one candidate says, piece by piece; a Scene is all candidates' scripts for one request; a
Reply is what leaves the server. What is said is decided elsewhere.
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
    body: Iterator[bytes | float]  #: bytes as they leave, and pauses in seconds


@dataclass(frozen=True, slots=True)
class Script:
    pieces: tuple[Piece, ...] = ()
    finish: str | None = "STOP"
    closing: JsonObject = EMPTY  #: what stands beside the last piece: sources, ratings, a finish message

    def candidates(self, index: int) -> Iterator[Fields]:
        pieces = self.pieces or ((),)
        for piece in pieces[:-1]:
            yield _candidate(index, piece)
        ending = {} if self.finish is None else {"finishReason": self.finish}
        yield _candidate(index, pieces[-1]) | ending | dict(self.closing)

    def limited(self, most_tokens: int) -> Script:
        """Cut where the tokens run out. Thoughts count; a call that does not fit is not made."""
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
    """In characters, as tokens are counted here."""
    if "text" in part:
        return len(part["text"])
    if "inlineData" in part:
        return TOKENS_PER_MEDIUM * CHARACTERS_PER_TOKEN
    return sum(len(orjson.dumps(value)) for key, value in part.items() if key != "thoughtSignature")


class _Tally:
    """Usage so far: Gemini reports running totals with every chunk."""

    def __init__(self, prompt: int) -> None:
        self._prompt = prompt
        self._said = 0
        self._thought = 0

    def add(self, part: JsonObject) -> None:
        if part.get("thought"):
            self._thought += size(part)
        else:
            self._said += size(part)

    def usage(self) -> Fields:
        said, thought = tokens(self._said), tokens(self._thought)
        counts = {
            "promptTokenCount": self._prompt,
            "candidatesTokenCount": said,
            "thoughtsTokenCount": thought,
        }
        return {
            **{name: count for name, count in counts.items() if count},
            "totalTokenCount": self._prompt + said + thought,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": self._prompt}],
        }


@dataclass(frozen=True, slots=True)
class Scene:
    ask: DemoRequest
    scripts: tuple[Script, ...]

    def rewritten(self, change: Callable[[Script], Script]) -> Scene:
        return replace(self, scripts=tuple(map(change, self.scripts)))

    def unfinished(self) -> Scene:
        """The beginning of the answer, without its end."""
        return self.rewritten(lambda script: Script(script.pieces[:-1] or script.pieces, finish=None))

    def chunks(self) -> Iterator[Fields]:
        tally = _Tally(self.ask.prompt_tokens)
        by_candidate = [script.candidates(index) for index, script in enumerate(self.scripts)]
        for candidate in filter(None, chain.from_iterable(zip_longest(*by_candidate))):
            for part in candidate["content"].get("parts", ()):
                tally.add(part)
            yield self.chunk(candidates=[candidate], usageMetadata=tally.usage())

    def chunk(self, **fields: Any) -> Fields:
        answer_id = base64.urlsafe_b64encode(self.ask.digest[:16]).decode().rstrip("=")
        return {**fields, "modelVersion": self.ask.model, "responseId": answer_id}

    def pauses(self) -> Iterator[float]:
        """20 to 40 ms, never quite regular."""
        return (0.020 + byte % 21 / 1000 for byte in cycle(self.ask.digest))

    def told(self) -> Reply:
        return Reply(200, paced(self.chunks(), self.pauses()))


def paced(chunks: Iterable[JsonObject], pauses: Iterable[float]) -> Iterator[bytes | float]:
    for chunk, pause in zip(chunks, pauses, strict=False):
        yield pause
        yield sse(chunk)


def sse(chunk: JsonObject) -> bytes:
    return b"data: " + orjson.dumps(chunk, default=dict) + b"\r\n\r\n"
