"""Flights for tests: a tape that is filled as a request fills it, and the flights of a running bridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from waiting import eventually

from bridge.gemini.types import Chunk, GenerateRequest
from bridge.observe.record import Record
from bridge.recorder.flight import FlightWriting, decode, encode
from bridge.recorder.tape import Recording, RequestLine, Tape
from bridge.state.flight_store import FlightQuery, FlightRow
from bridge.state.sqlite.flight_store import SqliteFlightStore

NO_LINE = RequestLine({}, {}, {})
ROW = FlightRow(
    "flight_1", 0.0, "req_1", "", "", "", "openai_chat", "", 200, "completed", "", "", "all", "n", 0
)


def taped(
    level: str,
    body: Mapping[str, Any],
    requests: Sequence[GenerateRequest] = (),
    chunks: Sequence[Sequence[Chunk]] = (),
    events: Sequence[Sequence[tuple[str, Any]]] = (),
    line: RequestLine = NO_LINE,
    reason: str = "all",
) -> Tape:
    tape = Tape(Recording(level, reason), line, 0)
    tape.client_request(body)
    for request in requests:
        tape.gemini_request(request)
    for batch in chunks:
        tape.batch(batch, ())
    for group in events:
        tape.batch((), group)
    tape.close()
    return tape


def kept(tape: Tape, record: Record | None = None, secrets: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the lines of the flight as a reader of the store gets them."""
    found = record or Record("req_1", "POST", "/")
    row = ROW._replace(level=tape.recording.level)
    return decode(encode(FlightWriting(tape, found).lines(row), secrets))


def flights_in(state: Path) -> SqliteFlightStore:
    return SqliteFlightStore(state / "flights.sqlite3", days=3, megabytes=256)


def flight_of(state: Path, request: str) -> tuple[FlightRow, list[dict[str, Any]]]:
    """Return the flight of this request; wait for it, since a thread writes it after the answer."""
    store = flights_in(state)
    found = eventually(lambda: store.find(request))
    assert found, f"no flight of {request}; there are {store.newest(FlightQuery())}"
    return found[0], decode(found[1])


def stage(lines: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["stage"] == name]
