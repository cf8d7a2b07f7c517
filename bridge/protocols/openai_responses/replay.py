"""Rules for streaming a stored background response."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.gemini.types import JsonObject
from bridge.protocols.base import Caller, Event, StreamFraming, StreamReplay
from bridge.protocols.openai_responses.dialects import Dialect, choose
from bridge.protocols.openai_responses.framing import HEARTBEAT
from bridge.protocols.replay_query import wants_stream, whole_number
from bridge.protocols.sse import encode_named


def _position(query: Mapping[str, str]) -> int | None:
    if not wants_stream(query):
        return None
    after = whole_number(query, "starting_after")
    return 0 if after is None else after + 1


def _ending(answer: JsonObject, position: int, caller: Caller) -> bytes:
    dialect = choose(caller)
    kinds = _final_events(dialect, answer["status"])
    if position == 0:
        kinds = ("response.created", *kinds)
    events = [
        Event(kind, {"type": kind, "sequence_number": number, "response": answer})
        for number, kind in enumerate(kinds, position)
    ]
    return StreamFraming(encode_named).encode_events(events)


def _final_events(dialect: Dialect, status: str) -> tuple[str, ...]:
    """The vendor has no event for a cancelled response: `response.failed` with the status `cancelled`."""
    if status in ("failed", "cancelled"):
        return dialect.failure_ends_with
    return dialect.limit_ends_with if status == "incomplete" else dialect.ends_with


def _keep_alive(caller: Caller) -> bytes:
    return HEARTBEAT if choose(caller).data_heartbeat else StreamFraming(encode_named).keep_alive()


REPLAY = StreamReplay(_position, _ending, _keep_alive)
