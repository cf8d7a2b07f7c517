"""Rules for streaming a stored background interaction."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.gemini.types import JsonObject
from bridge.protocols.base import Caller, Event, StreamFraming, StreamReplay
from bridge.protocols.gemini_interactions.machine import COMPLETED, CREATED, END, ERROR
from bridge.protocols.replay_query import wants_stream, whole_number
from bridge.protocols.sse import encode_named


def _position(query: Mapping[str, str]) -> int | None:
    """The event with the id N has the position N - 1."""
    if not wants_stream(query):
        return None
    return whole_number(query, "last_event_id") or 0


def _ending(answer: JsonObject, position: int, _caller: Caller) -> bytes:
    interaction = {name: value for name, value in answer.items() if name not in ("steps", "errors")}
    given = [(CREATED, {"interaction": interaction})] if position == 0 else []
    if errors := answer.get("errors"):
        given.append((ERROR, {"error": errors[0]}))
    else:
        given.append((COMPLETED, {"interaction": interaction}))
    events = [
        Event(kind, {**data, "event_type": kind, "event_id": str(number)})
        for number, (kind, data) in enumerate(given, position + 1)
    ]
    return StreamFraming(encode_named).encode_events(events) + END


REPLAY = StreamReplay(_position, _ending, lambda _caller: StreamFraming(encode_named).keep_alive())
