"""The usage writer: all rows are stored, sums match rows, old rows are deleted, no error affects requests."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from usage_rows import NOON, row
from waiting import eventually

from bridge.errors import UpstreamOverloaded
from bridge.gemini.types import Usage
from bridge.observe import metrics, usage_writer
from bridge.observe.record import Record
from bridge.observe.usage_writer import UsageObserver, UsageWriter
from bridge.settings.prices import Price, PriceRow, PriceTable
from bridge.state.sqlite.usage_store import SqliteUsageStore
from bridge.state.usage_store import (
    UsageQuery,
    UsageRow,
    UsageSums,
    total,
)

DAY = 86_400
PRICES = PriceTable("USD", [PriceRow(("known*",), Price(1.0, 0.1, 10.0))])


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "accounts.sqlite3"


@pytest.fixture
def store(path: Path, clock: Clock) -> SqliteUsageStore:
    return SqliteUsageStore(path, days=400, request_days=31, megabytes=256, now=clock)


@pytest.fixture
def writer(store: SqliteUsageStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[UsageWriter]:
    monkeypatch.setattr(usage_writer, "GATHERING", 0.01)
    monkeypatch.setattr(usage_writer, "RETRY", 0.05)
    made = UsageWriter(store)
    yield made
    made.close()


def everything(path: Path) -> UsageSums:
    store = SqliteUsageStore(path, days=400, request_days=31, megabytes=256)
    return total(store.sums(UsageQuery(("key",), date(2000, 1, 1), date(2100, 1, 1))))


def dropped() -> float:
    return metrics._DROPPED._value.get()


# --- the observer ------------------------------------------------------------------------------------


def record_of(usage: Usage | None, **fields) -> Record:
    record = Record("req_1", "POST", "/v1/chat/completions", **fields)
    record.protocol, record.model, record.upstream_model, record.status = "openai_chat", "gpt-5", "known", 200
    record.usage = usage
    record.asks_model()
    return record


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[UsageRow]:
    written: list[UsageRow] = []
    monkeypatch.setattr(UsageWriter, "put", lambda _, each, _late: written.append(each))
    return written


USAGE = Usage(
    {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 40,
        "toolUsePromptTokenCount": 5,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 3,
    }
)


def test_a_row_holds_each_token_once_and_its_cost(store: SqliteUsageStore, rows: list[UsageRow]) -> None:
    UsageObserver(store, PRICES)(record_of(USAGE, key="alice", client="codex"))
    assert rows[0][1:11] == (
        *("alice", "openai_chat", "codex", "gpt-5", "known"),
        *(65, 40, 7, 3),
        pytest.approx((65 * 1.0 + 40 * 0.1 + 10 * 10.0) / 1e6),
    )
    assert rows[0][13:16] == ("completed", "", 200)
    assert rows[0].tier == ""


def test_a_row_has_its_service_tier_and_the_tiers_cost(store: SqliteUsageStore, rows: list[UsageRow]) -> None:
    prices = PriceTable("USD", [PriceRow(("known*",), Price(1.0, 0.1, 10.0))], {"flex": 0.5})
    for tier in (None, "standard", "flex", "priority"):
        record = record_of(USAGE)
        record.service_tier = tier
        UsageObserver(store, prices)(record)
    full = (65 * 1.0 + 40 * 0.1 + 10 * 10.0) / 1e6
    assert [(each.tier, each.cost) for each in rows] == [
        ("", pytest.approx(full)),
        ("standard", pytest.approx(full)),
        ("flex", pytest.approx(full / 2)),
        ("priority", None),
    ]


def test_the_cost_uses_the_answering_models_price_if_known(
    store: SqliteUsageStore, rows: list[UsageRow]
) -> None:
    prices = PriceTable("USD", [PriceRow((f"known{digit}",), Price(digit, 0, 0)) for digit in (1, 2)])
    for asked, answered in [("known1", "known2"), ("known1", "unheard-of"), ("moving", "known2"), ("a", "b")]:
        record = record_of(USAGE)
        record.upstream_model, record.model_version = asked, answered
        UsageObserver(store, prices)(record)
    once, twice = pytest.approx(65 / 1e6), pytest.approx(130 / 1e6)
    assert [each.cost for each in rows] == [twice, once, twice, None]


def test_a_model_without_a_price_has_no_cost_and_no_usage_costs_nothing(
    store: SqliteUsageStore, rows: list[UsageRow]
) -> None:
    accountant = UsageObserver(store, PRICES)
    unknown = record_of(USAGE)
    unknown.upstream_model = "other"
    accountant(unknown)
    failed = record_of(None)
    failed.failed(UpstreamOverloaded("busy"))
    accountant(failed)
    assert [each.cost for each in rows] == [None, 0.0]
    assert (rows[1].outcome, rows[1].error, rows[1].input) == ("failed", "overloaded", 0)


def test_a_request_that_reached_no_model_has_no_row(store: SqliteUsageStore, rows: list[UsageRow]) -> None:
    UsageObserver(store, PRICES)(Record("req_1", "GET", "/v1/models"))
    assert rows == []


def test_client_chosen_names_are_truncated(store: SqliteUsageStore, rows: list[UsageRow]) -> None:
    record = record_of(USAGE)
    record.model = record.upstream_model = "m" * 1_000_000
    UsageObserver(store, PRICES)(record)
    assert len(rows[0].client_model) == len(rows[0].model) == usage_writer.LONGEST_NAME


# --- the writer --------------------------------------------------------------------------------------


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.levelno == logging.WARNING]


def test_rows_are_written_together_by_one_thread(writer: UsageWriter, path: Path) -> None:
    for _ in range(2_500):
        writer.put(row())
    assert eventually(lambda: everything(path).requests == 2_500)


def test_a_locked_file_delays_rows_but_no_requests(
    writer: UsageWriter, store: SqliteUsageStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.write([row()])
    locker = sqlite3.connect(path)
    locker.execute("BEGIN EXCLUSIVE")
    before = dropped()
    began = time.thread_time()
    for _ in range(500):
        writer.put(row())
    assert time.thread_time() - began < 1
    assert eventually(lambda: warnings(caplog))
    assert everything(path).requests == 1, "it can be read meanwhile"
    locker.rollback()
    locker.close()
    assert eventually(lambda: everything(path).requests == 501)
    assert dropped() == before
    assert [each.message for each in warnings(caplog)] == ["usage cannot be written, the rows wait"]
    assert warnings(caplog)[0].reason == "database is locked"


def test_a_full_disk_delays_rows_and_then_drops_them_with_a_count(
    store: SqliteUsageStore, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(usage_writer, "GATHERING", 0.01)
    monkeypatch.setattr(usage_writer, "RETRY", 0.05)
    monkeypatch.setattr(usage_writer, "MOST_WAITING", 50)
    store.write([row()])
    pages = store._database.transaction(lambda database: database.execute("PRAGMA page_count").fetchone()[0])
    store._database.transaction(lambda database: database.execute(f"PRAGMA max_page_count = {pages}"))
    before = dropped()
    writer = UsageWriter(store)
    for _ in range(400):
        writer.put(row(client_model="m" * 128))
        time.sleep(0.001)
    assert dropped() > before
    assert len(warnings(caplog)) == 1, "once a minute"
    assert "full" in caplog.records[-1].reason
    writer.close()
    assert everything(path).requests + dropped() - before == 401, "each is written or counted"


def test_invalid_rows_are_dropped_and_the_others_are_written(writer: UsageWriter, path: Path) -> None:
    before = dropped()
    writer.put(row(input=1 << 70))
    assert eventually(lambda: dropped() == before + 1)
    writer.put(row(key="\ud800"))
    assert eventually(lambda: dropped() == before + 2)
    writer.put(row())
    assert eventually(lambda: everything(path).requests == 1)


def test_an_error_of_the_bridge_itself_does_not_make_rows_wait(
    writer: UsageWriter, store: SqliteUsageStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.write([row()])
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE request RENAME COLUMN tier TO level")
        database.commit()
    before = dropped()
    writer.put(row())
    assert eventually(lambda: dropped() == before + 1)
    assert [each.message for each in warnings(caplog)] == ["usage dropped"]
    assert "tier" in warnings(caplog)[0].reason


def test_a_corrupt_usage_file_drops_rows_without_errors(writer: UsageWriter, path: Path) -> None:
    path.write_bytes(b"not a database" * 100)
    before = dropped()
    writer.put(row())
    assert eventually(lambda: dropped() == before + 1)


def test_pending_rows_are_written_when_the_process_ends(path: Path) -> None:
    code = f"""
from pathlib import Path
from bridge.observe.usage_writer import UsageWriter
from bridge.state.sqlite.usage_store import SqliteUsageStore
from bridge.state.usage_store import UsageRow
writer = UsageWriter(SqliteUsageStore(Path({str(path)!r}), days=1, request_days=1, megabytes=1))
for number in range(30):
    writer.put(UsageRow({time.time()}, *"abcde", 1, 1, 1, 1, 0.1, 1.0, None, "completed", "", 200, ""))
"""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert everything(path).requests == 30
    assert time.monotonic() - began < 30


def test_shutdown_does_not_wait_long_for_a_locked_file(
    store: SqliteUsageStore, path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(usage_writer, "GATHERING", 0.01)
    store.write([row()])
    locker = sqlite3.connect(path)
    locker.execute("BEGIN EXCLUSIVE")
    writer = UsageWriter(store)
    writer.put(row())
    before = dropped()
    began = time.monotonic()
    writer.close()
    assert time.monotonic() - began < usage_writer.LAST_WORDS + 1
    assert dropped() == before + 1
    locker.close()


def test_shutdown_waits_a_moment_for_another_worker_that_writes(
    store: SqliteUsageStore, path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(usage_writer, "GATHERING", 0.01)
    store.write([row()])
    locker = sqlite3.connect(path, check_same_thread=False)
    locker.execute("BEGIN EXCLUSIVE")
    writer = UsageWriter(store)
    writer.put(row())
    release = threading.Timer(1.0, locker.close)
    release.start()
    writer.close()
    assert everything(path).requests == 2
    release.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_its_own_writer_thread(writer: UsageWriter, path: Path) -> None:
    writer.put(row())
    assert eventually(lambda: everything(path).requests == 1)
    code = """
import os, sys, time
from pathlib import Path
from bridge.observe.usage_writer import UsageWriter
from bridge.state.sqlite.usage_store import SqliteUsageStore
from bridge.state.usage_store import UsageRow
writer = UsageWriter(SqliteUsageStore(Path(sys.argv[1]), days=9999, request_days=9999, megabytes=1))
one = UsageRow(time.time(), *"abcde", 1, 1, 1, 1, 0.1, 1.0, None, "completed", "", 200, "")
writer.put(one)
time.sleep(1.5)
if (child := os.fork()) == 0:
    writer.put(one)
    sys.exit(0)
os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(path)], check=True, timeout=60)
    assert everything(path).requests == 3
