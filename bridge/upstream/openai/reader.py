"""Reads the payloads of one Chat Completions stream: chunks, errors inside the stream, and the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson

from bridge.errors import BridgeError
from bridge.gemini.types import Chunk, JsonObject
from bridge.upstream.masking import Mask
from bridge.upstream.openai.answer import ChatAnswer
from bridge.upstream.payloads import not_json, objects_of, parsed

END = b"[DONE]"

#: The error in an event, if the event is one.
FindError = Callable[[JsonObject], BridgeError | None]
#: Converts an event of another protocol to one of Chat Completions.
Translate = Callable[[dict[str, Any]], JsonObject]


def _unchanged(event: dict[str, Any]) -> JsonObject:
    return event


class ChatReader:
    def __init__(
        self,
        answer: ChatAnswer,
        find_error: FindError,
        mask: Mask,
        server: str,
        translate: Translate = _unchanged,
    ) -> None:
        self._answer = answer
        self._find_error = find_error
        self._mask = mask
        self._server = server
        self._translate = translate
        self.failure: BridgeError | None = None
        self.complete = False

    def read(self, payloads: Iterable[bytes], at_end: bool = False) -> Sequence[Chunk]:
        chunks: list[Chunk] = []
        payload = b""
        try:
            for payload in payloads:
                if self.complete:
                    break
                chunks += self._read(payload)
            if at_end and not self.complete:
                self.complete = True
                chunks += self._answer.end(announced=False)
        except orjson.JSONDecodeError:
            self.failure = not_json(payload, self._server, at_end)
        except BridgeError as error:
            self.failure = error
        return chunks

    def _read(self, payload: bytes) -> Iterator[Chunk]:
        if payload.strip() == END:
            self.complete = True
            yield from self._answer.end(announced=True)
            return
        for event in objects_of(parsed(self._mask(payload), self._server), self._server):
            if (error := self._find_error(event)) is not None:
                raise self._find_error(self._mask.in_object(event)) or error
            if (chunk := self._answer.feed(self._translate(event))) is not None:
                yield chunk
            if event.get("done") is True:  # Ollama's last event
                self.complete = True
                yield from self._answer.end(announced=True)
