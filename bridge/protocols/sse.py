"""Encodes events as server-sent events."""

from __future__ import annotations

import orjson

from bridge.protocols.base import Event

#: Legal in JSON, but clients that split decoded text treat them as line ends.
_LINE_SEPARATORS = {"\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029", "\x85".encode(): b"\\u0085"}


def encode_named(event: Event) -> bytes:
    encoded = orjson.dumps(event.data)
    data = encoded if encoded.isascii() else _without_separators(encoded)
    return b"event: %b\ndata: %b\n\n" % (event.type.encode(), data)


def encode_data(event: Event) -> bytes:
    encoded = orjson.dumps(event.data)
    return b"data: %b\n\n" % (encoded if encoded.isascii() else _without_separators(encoded))


def _without_separators(encoded: bytes) -> bytes:
    for separator, escaped in _LINE_SEPARATORS.items():
        encoded = encoded.replace(separator, escaped)
    return encoded
