"""Writes a native stream as server-sent events or as one growing JSON array.

The limits of Google's SDKs decide the details. Comments break most of them, and blank lines break the older
ones. So the heartbeat starts the next event early, since blanks before JSON mean nothing. An error inside a
stream is sent as an event and again as a bare JSON object, the two forms that Google uses: each SDK ignores
one of them. Google's oldest Python SDK parses an array character by character. It ignores an error element,
but fails on any character after the last bracket. So only a failed answer ends with a line feed.
"""

from __future__ import annotations

from typing import ClassVar

import orjson

from bridge.gemini.types import JsonObject
from bridge.protocols.base import ConvertedRequest, Event, StreamFraming
from bridge.protocols.gemini_native.converter import NativeOptions
from bridge.protocols.gemini_native.machine import END, ERROR
from bridge.protocols.sse import encode_data

DATA = b"data: "
NOTHING_SAID = b"{}\n\n"
OPENING, BETWEEN = b"[", b",\n"


def framing(converted: ConvertedRequest) -> StreamFraming:
    sse = isinstance(converted.options, NativeOptions) and converted.options.sse
    return EventFraming() if sse else ArrayFraming()


class EventFraming(StreamFraming):
    def __init__(self) -> None:
        super().__init__(self._event)
        self._begun = False  #: only the beginning of the next event was sent
        self._finished = False  #: the last chunk was sent, so a started event could stay incomplete

    def keep_alive(self) -> bytes:
        if self._finished:
            return b""
        if self._begun:
            return b" "
        self._begun = True
        return DATA

    def _event(self, event: Event) -> bytes:
        begun, self._begun = self._begun, False
        if event.type == END:
            return NOTHING_SAID if begun else b""
        self._finished = self._finished or _is_last(event.data)
        written = encode_data(event)[len(DATA) if begun else 0 :]
        return written + orjson.dumps(event.data) + b"\n" if event.type == ERROR else written


def _is_last(chunk: JsonObject) -> bool:
    return any("finishReason" in candidate for candidate in chunk.get("candidates", ()))


class ArrayFraming(StreamFraming):
    content_type: ClassVar[str] = "application/json; charset=UTF-8"

    def __init__(self) -> None:
        super().__init__(self._element)
        self._before = OPENING  #: the separator before the next element

    def keep_alive(self) -> bytes:
        if self._before == OPENING:
            self._before = b""
            return OPENING
        return b"\n"

    def _element(self, event: Event) -> bytes:
        before, self._before = self._before, BETWEEN
        if event.type == END:
            return b"[]" if before == OPENING else b"]"
        written = before + orjson.dumps(event.data)
        return written + b"]\n" if event.type == ERROR else written
