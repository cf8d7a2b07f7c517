"""The decisions of the recorder, and its writer when the store or the queue is full."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from flights import taped
from waiting import eventually

from bridge.errors import UpstreamUnreachable
from bridge.observe.record import Record
from bridge.recorder import flight_writer
from bridge.recorder.flight_writer import FlightWriter
from bridge.recorder.recorder import Recorder
from bridge.recorder.rules import ActiveRules
from bridge.settings import load
from bridge.state.errors import StorageUnavailable
from bridge.state.flight_store import FlightQuery, FlightRow, FlightRule
from bridge.state.sqlite.flight_store import SqliteFlightStore

BODY = {"model": "gpt-5", "messages": []}


@pytest.fixture
def store(tmp_path: Path) -> SqliteFlightStore:
    return SqliteFlightStore(tmp_path / "flights.sqlite3", days=3, megabytes=9)


def recorder(store: SqliteFlightStore, mode: str, level: str = "shape") -> Recorder:
    return Recorder(load(environ={"BRIDGE_RECORDER__MODE": mode, "BRIDGE_RECORDER__LEVEL": level}), store)


def rule(**fields: Any) -> FlightRule:
    now = time.time()
    usual = FlightRule(f"rule_{fields}", now, now + 60, None, None, None, False, "masked", "root")
    return usual._replace(**fields)


def begun(found: Recorder, **headers: str) -> tuple[Record, Any]:
    record = Record("req_1", "POST", "/", key="alice", protocol="openai_chat")
    return record, found.tape(record, headers, {}, {}, BODY, 10)


@pytest.mark.parametrize(
    ("mode", "fails", "kept", "shown"),
    [
        ("rules", True, 0, None),
        ("errors", False, 0, "on-error; shape"),
        ("errors", True, 1, "on-error; shape"),
        ("all", False, 1, "shape"),
    ],
)
def test_the_mode_decides_what_is_kept(
    store: SqliteFlightStore, mode: str, fails: bool, kept: int, shown: str | None
) -> None:
    found = recorder(store, mode)
    record, tape = begun(found)
    assert (tape and tape.recording.shown) == shown
    if fails:
        record.failed(UpstreamUnreachable("gone"))
    record.tell()
    found.close()
    assert len(store.newest(FlightQuery())) == kept


def test_a_client_that_leaves_is_no_failure(store: SqliteFlightStore) -> None:
    found = recorder(store, "errors")
    record, tape = begun(found)
    record.unfinished(lost=False)
    record.tell()
    found.close()
    assert store.newest(FlightQuery()) == []
    assert tape.body == {}


def test_a_rule_with_the_highest_level_wins_over_others_and_over_the_mode(store: SqliteFlightStore) -> None:
    for level in ("masked", "full", "shape"):
        store.add_rule(rule(id=level, key="alice", level=level))
    _, tape = begun(recorder(store, "all"))
    assert tape.recording == ("full", "full")


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ({"key": "alice"}, True),
        ({"key": "bob"}, False),
        ({"model": "gpt-5"}, True),
        ({"model": "gpt"}, False),
        ({"session": "s-1"}, True),
        ({"session": "s-2"}, False),
        ({"header": True}, True),
        ({"key": "alice", "model": "gpt-5", "session": "s-1", "header": True}, True),
        ({"key": "alice", "model": "other"}, False),
        ({"key": "alice", "ends": 1.0}, False),
    ],
)
def test_a_rule_matches_requests_with_all_its_properties(
    store: SqliteFlightStore, fields: dict[str, Any], matches: bool
) -> None:
    store.add_rule(rule(**fields))
    record = Record("req_1", "POST", "/", key="alice", session="s-1")
    found = ActiveRules(store).matching(record, {"x-bridge-record": "1"}, "gpt-5", {})
    assert (found is not None) == matches


def test_a_rule_for_the_header_matches_no_request_without_it(store: SqliteFlightStore) -> None:
    store.add_rule(rule(header=True))
    record = Record("req_1", "POST", "/")
    rules = ActiveRules(store)
    assert rules.matching(record, {}, "", {}) is None
    assert rules.matching(record, {"x-bridge-record": "0"}, "", {}) is None


def test_a_session_in_the_metadata_of_messages_is_known(store: SqliteFlightStore) -> None:
    store.add_rule(rule(session="abc"))
    body = {"metadata": {"user_id": "user_1_session_abc"}}
    assert ActiveRules(store).matching(Record("r", "POST", "/"), {}, "", body) is not None


def test_rules_apply_until_they_end_while_the_store_cannot_be_read(
    store: SqliteFlightStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_rule(rule(id="short", key="alice", ends=time.time() + 0.5))
    rules = ActiveRules(store)

    def fail() -> list[FlightRule]:
        raise StorageUnavailable("locked")

    monkeypatch.setattr(store, "rules", fail)
    rules.refresh()
    record = Record("r", "POST", "/", key="alice")
    assert rules.matching(record, {}, "", {}) is not None
    assert eventually(lambda: rules.matching(record, {}, "", {}) is None, 3)


class BlockedStore(SqliteFlightStore):
    """Writes nothing until it is released; then every write fails as on a full disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, 3, 9)
        self.released = threading.Event()
        self.attempts = 0

    def keep(self, row: FlightRow, data: bytes) -> None:
        self.released.wait(30)
        self.attempts += 1
        raise StorageUnavailable("disk full", "disk full")


def test_a_full_queue_drops_and_counts_and_a_full_disk_does_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counted: list[int] = []
    monkeypatch.setattr(flight_writer.metrics, "flight_dropped", lambda: counted.append(1))
    monkeypatch.setattr(flight_writer, "MOST_WAITING", 3)
    store = BlockedStore(tmp_path / "flights.sqlite3")
    writer = FlightWriter(store, "node", ())
    began = time.monotonic()
    for _ in range(10):
        writer.put(taped("full", BODY), Record("r", "POST", "/"), "all")
    assert time.monotonic() - began < 1
    assert len(counted) == 7
    store.released.set()
    writer.close()
    assert (store.attempts, len(counted)) == (3, 10)
    assert [entry.message for entry in caplog.records].count("flights dropped") == 1


def test_bodies_that_wait_are_limited_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    monkeypatch.setattr(flight_writer.metrics, "flight_dropped", lambda: counted.append(1))
    store = BlockedStore(tmp_path / "flights.sqlite3")
    writer = FlightWriter(store, "node", ())
    for _ in range(3):
        tape = taped("full", BODY)
        tape.size = flight_writer.MOST_BYTES // 2
        writer.put(tape, Record("r", "POST", "/"), "all")
    assert len(counted) == 1
    store.released.set()
    writer.close()


def test_a_value_that_is_no_json_loses_its_flight_and_nothing_else(store: SqliteFlightStore) -> None:
    writer = FlightWriter(store, "node", ())
    writer.put(taped("full", {"messages": "\ud800"}), Record("bad", "POST", "/"), "all")
    writer.put(taped("full", BODY), Record("good", "POST", "/"), "all")
    writer.close()
    assert [row.request for row in store.newest(FlightQuery())] == ["good"]


def test_a_line_that_is_too_large_is_left_out_and_says_so(
    store: SqliteFlightStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bridge.recorder import flight
    from bridge.recorder.export import NothingKept, client_request

    monkeypatch.setattr(flight, "LONGEST_LINE", 1000)
    writer = FlightWriter(store, "node", ())
    writer.put(taped("full", {"messages": "x" * 2000}), Record("req_1", "POST", "/"), "all")
    writer.close()
    found = store.find("req_1")
    assert found is not None
    lines = flight.decode(found[1])
    assert flight.of_stage(lines, "client-request")[0]["bytes_left_out"] > 2000
    with pytest.raises(NothingKept, match="too large"):
        client_request(lines)
