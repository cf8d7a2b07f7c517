"""An event as bytes on the wire."""

from __future__ import annotations

from typing import Any

import orjson

#: Legal inside JSON, but taken for line ends by clients that split decoded text.
_LINE_SEPARATORS = {"\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029", "\x85".encode(): b"\\u0085"}


def encode_named(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _json(data))


def encode_data(data: Any) -> bytes:
    return b"data: " + _json(data) + b"\n\n"


def _json(data: Any) -> bytes:
    encoded = orjson.dumps(data)
    if not encoded.isascii():
        for separator, escaped in _LINE_SEPARATORS.items():
            encoded = encoded.replace(separator, escaped)
    return encoded
