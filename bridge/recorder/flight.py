"""A flight: what is kept of one request, as JSON Lines. Each line has a `stage`, and some have a time `ms`,
in milliseconds since the request came."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from bridge import __version__
from bridge.gemini.types import JsonObject
from bridge.gemini.wire import chunk_to_json, request_to_json
from bridge.observe.record import Record
from bridge.recorder.levels import LEVELS, Level
from bridge.recorder.request_headers import RECORDED_HEADERS, RECORDED_PARAMETERS, recorded
from bridge.recorder.tape import Tape
from bridge.state.flight_store import FlightRow

Line = dict[str, Any]

#: The stages, in the order in which a flight has them.
(
    SUMMARY,
    TIMELINE,
    CLIENT_REQUEST,
    GEMINI_REQUEST,
    NOTES,
    CHUNK,
    EVENT,
    CLIENT_ANSWER,
    ERROR,
    USAGE,
    PREFIX,
) = (
    "summary",
    "timeline",
    "client-request",
    "gemini-request",
    "notes",
    "chunk",
    "event",
    "client-answer",
    "error",
    "usage",
    "prefix",
)
STAGES = (
    SUMMARY,
    TIMELINE,
    CLIENT_REQUEST,
    GEMINI_REQUEST,
    NOTES,
    CHUNK,
    EVENT,
    CLIENT_ANSWER,
    ERROR,
    USAGE,
    PREFIX,
)
#: Bytes of a line and of all lines; what is larger is left out, and its line says so.
LONGEST_LINE = 8 << 20
LONGEST_FLIGHT = 16 << 20
REMOVED = b"[key removed]"


class FlightWriting:
    """Makes the lines of one flight."""

    def __init__(self, tape: Tape, record: Record) -> None:
        self._tape = tape
        self._record = record
        self._began = time.monotonic() - record.seconds
        self._requests = [
            (moment, request.model, request_to_json(request)) for moment, request in tape.requests
        ]
        self._batches = tape.batches
        bodies = [tape.body, *(body for _, _, body in self._requests)]
        self._level: Level = LEVELS[tape.recording.level](bodies)

    def _ms(self, moment: float | None) -> float | None:
        return None if moment is None else round((moment - self._began) * 1000, 1)

    def lines(self, row: FlightRow) -> Iterator[Line]:
        yield self._summary(row)
        yield {"stage": TIMELINE, **self._timeline()}
        yield {"stage": CLIENT_REQUEST, **self._client_request()}
        for number, (moment, model, body) in enumerate(self._requests, start=1):
            content = self._level.value({"model": model, "body": body})
            yield {"stage": GEMINI_REQUEST, "ms": self._ms(moment), "attempt": number, **content}
        yield {"stage": NOTES, **self._notes()}
        yield from self._chunks()
        yield from self._events()
        if self._tape.answer is not None:
            yield {"stage": CLIENT_ANSWER, "body": self._level.value(self._tape.answer)}
        if self._record.error is not None:
            yield {"stage": ERROR, **self._error()}
        if self._record.usage is not None:
            yield {"stage": USAGE, "usage": self._level.value(self._record.usage.raw)}

    def _summary(self, row: FlightRow) -> Line:
        record = self._record
        models = {
            "model": record.model,
            "upstream_model": record.upstream_model,
            "model_version": record.model_version,
        }
        named = {
            **row._asdict(),
            "version": __version__,
            "upstream": record.upstream,
            "stream": record.stream,
        }
        for left_out in ("bytes", "model"):
            del named[left_out]
        return {"stage": SUMMARY, **named, **self._level.value(models)}

    def _timeline(self) -> dict[str, float | None]:
        tape, record = self._tape, self._record
        chunks = [batch.at for batch in self._batches if batch.chunks]
        sent, first_byte = record.seconds_to_asking, record.seconds_to_first_byte
        return {
            "received": 0.0,
            "converted": self._ms(tape.requests[0][0]) if tape.requests else None,
            "sent": _milliseconds(sent),
            "first_chunk": self._ms(chunks[0]) if chunks else None,
            "first_byte_out": _milliseconds(first_byte),
            "last_chunk": self._ms(chunks[-1]) if chunks else None,
            "closed": self._ms(tape.closed_at),
        }

    def _client_request(self) -> JsonObject:
        line = self._tape.line
        content = {
            "headers": recorded(line.headers, RECORDED_HEADERS),
            "path": dict(line.path),
            "query": recorded(line.query, RECORDED_PARAMETERS),
            "body": self._tape.body,
        }
        return {name: self._level.value(value) for name, value in content.items()}

    def _notes(self) -> Line:
        notes: dict[str, int] = {}
        for name, number in self._record.notes.items():
            shown = self._level.note(name)
            notes[shown] = notes.get(shown, 0) + number
        losses = sorted({self._level.note(name) for name in self._record.losses})
        return {"notes": notes, "losses": losses, "finish": list(self._record.finish_reasons)}

    def _chunks(self) -> Iterator[Line]:
        found = [(batch.at, chunk) for batch in self._batches for chunk in batch.chunks]
        values = self._level.stream([{"chunk": chunk_to_json(chunk)} for _, chunk in found])
        for (moment, _), value in zip(found, values, strict=True):
            yield {"stage": CHUNK, "ms": self._ms(moment), **value}
        yield from self._left_out(CHUNK)

    def _events(self) -> Iterator[Line]:
        found = [(batch.at, event) for batch in self._batches for event in batch.events]
        values = self._level.stream([{"data": data} for _, (_, data) in found])
        for (moment, (kind, _)), value in zip(found, values, strict=True):
            yield {"stage": EVENT, "ms": self._ms(moment), "type": kind, **value}
        yield from self._left_out(EVENT)

    def _left_out(self, stage: str) -> Iterator[Line]:
        if self._tape.left_out:
            yield {"stage": stage, "batches_left_out": self._tape.left_out}

    def _error(self) -> Line:
        record = self._record
        message = self._level.value({"message": record.error_message or ""})
        return {"kind": record.error, "status": record.status, "rule": record.rule, **message}


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


# --- the data of the store ---------------------------------------------------------------------------


def encode(lines: Iterable[Line], secrets: Iterable[str]) -> bytes:
    """The compressed lines. `secrets` are the operator's own, which no level contains."""
    encoded: list[bytes] = []
    size = 0
    for line in lines:
        data = _encoded(line)
        if len(data) > LONGEST_LINE or size + len(data) > LONGEST_FLIGHT:
            data = _encoded({"stage": line["stage"], "bytes_left_out": len(data)})
        size += len(data)
        encoded.append(data)
    whole = b"\n".join(encoded)
    for secret in secrets:
        whole = whole.replace(secret.encode(), REMOVED)
    return zlib.compress(whole)


def _encoded(line: Line) -> bytes:
    return orjson.dumps(line, default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def decode(data: bytes) -> list[Line]:
    return [orjson.loads(line) for line in zlib.decompress(data).split(b"\n")]


def of_stage(lines: Iterable[Line], stage: str) -> list[Line]:
    return [line for line in lines if line["stage"] == stage]
