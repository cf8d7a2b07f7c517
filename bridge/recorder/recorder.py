"""Decides which requests are recorded, and keeps the tapes of those that shall be kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bridge.gemini.types import JsonObject
from bridge.observe.record import LOST, Record
from bridge.recorder.flight_writer import FlightWriter
from bridge.recorder.rules import ActiveRules
from bridge.recorder.tape import Recording, RequestLine, Tape
from bridge.settings import Settings
from bridge.state.flight_store import FlightStore

ERRORS, ALL = "errors", "all"
FAILED = frozenset({"failed", LOST})


class Recorder:
    def __init__(self, settings: Settings, store: FlightStore) -> None:
        mode, level = settings.recorder.mode, settings.recorder.level
        self._rules = ActiveRules(store)
        self._writer = FlightWriter(store, settings.server.node_name, settings.secrets)
        #: What applies without a rule.
        self._usual = {ERRORS: Recording(level), ALL: Recording(level, reason=ALL)}.get(mode)

    def tape(
        self,
        record: Record,
        headers: Mapping[str, str],
        path: Mapping[str, str],
        query: Mapping[str, str],
        body: JsonObject,
        size: int,
    ) -> Tape | None:
        """The tape for a request, if it is recorded. `size`: the bytes of its body."""
        recording = self._recording(record, headers, path, body)
        if recording is None:
            return None
        tape = Tape(recording, RequestLine(headers, path, query), size)
        tape.client_request(body)
        record.settlers = (*record.settlers, partial(self._end, tape))
        return tape

    def _recording(
        self, record: Record, headers: Mapping[str, str], path: Mapping[str, str], body: JsonObject
    ) -> Recording | None:
        model = path.get("model") or body.get("model")
        rule = self._rules.matching(record, headers, model if isinstance(model, str) else "", body)
        return Recording(rule.level, reason=rule.id) if rule else self._usual

    def _end(self, tape: Tape, record: Record) -> None:
        tape.close()
        reason = tape.recording.reason or (ERRORS if record.outcome in FAILED else "")
        if reason:
            self._writer.put(tape, record, reason)
        else:
            tape.clear()

    def close(self) -> None:
        self._writer.close()
