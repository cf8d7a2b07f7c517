"""Encodes the events of Responses, and the heartbeat."""

from __future__ import annotations

from bridge.protocols.base import ConvertedRequest, StreamFraming
from bridge.protocols.openai_responses.options import ResponsesOptions
from bridge.protocols.sse import encode_named

HEARTBEAT = b'data: {"type":"keepalive"}\n\n'


def framing(converted: ConvertedRequest) -> StreamFraming:
    if isinstance(converted.options, ResponsesOptions) and converted.options.dialect.data_heartbeat:
        return StreamFraming(encode_named, HEARTBEAT)
    return StreamFraming(encode_named)
