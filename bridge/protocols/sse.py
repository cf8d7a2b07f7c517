"""An event as bytes on the wire."""

from __future__ import annotations

from typing import Any

import orjson


def encode_named(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(data))


def encode_data(data: Any) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"
