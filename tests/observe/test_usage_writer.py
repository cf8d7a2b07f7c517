"""The usage writer: all rows are stored, sums match rows, old rows are deleted, no error affects requests."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from waiting import eventually

from bridge.errors import UpstreamOverloaded
from bridge.gemini.types import Usage
from bridge.observe import metrics, usage_writer
from bridge.observe.record import Record
from bridge.observe.usage_writer import UsageObserver, UsageWriter
from bridge.settings.prices import Price, PriceRow, PriceTable
from bridge.state.usage_report import OF_DAYS, OF_REQUESTS, Question, Sums, read_sums, total
from bridge.state.usage_store import ROWS_IN_A_STEP, AccountStore, Row

NOON = 1_794_916_800.0  # 2026-11-17
DAY = 86_400
PRICES = PriceTable("USD", [PriceRow(("known*",), Price(1.0, 0.1, 10.0))])


def row(at: float = NOON, **different) -> Row:
    usual = Row(
        at,
        "alice",
        "openai_chat",
        "codex",
        "gpt-5",
        "known",
        100,
        10,
        20,
        5,
        0.5,
        1.5,
        0.2,
        "completed",
        "",
        200,
    )
    return usual._replace(**different)


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
def store(path: Path, clock: Clock) -> AccountStore:
    return AccountStore(path, days=400, request_days=31, megabytes=256, now=clock)


@pytest.fixture
def writer(store: AccountStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[UsageWriter]:
    monkeypatch.setattr(usage_writer, "GATHERING", 0.01)
    monkeypatch.setattr(usage_writer, "RETRY", 0.05)
    made = UsageWriter(store)
    yield made
    made.close()


def everything(path: Path, by: str = "key") -> Sums:
    asked = Question((by,), date(2000, 1, 1), date(2100, 1, 1))
    return total(read_sums(path, asked)) if path.exists() else Sums()


def dropped() -> float:
    return metrics._DROPPED._value.get()


# --- the store ---------------------------------------------------------------------------------------


def test_daily_sums_match_request_rows(store: AccountStore, path: Path) -> None:
    store.write(
        [
            row(),
            row(
                key="bob",
                outcome="failed",
                error="overloaded",
                input=0,
                cached=0,
                output=0,
                reasoning=0,
                cost=0,
            ),
            row(NOON + DAY, model="unknown", cost=None),
            row(NOON + DAY, outcome="client_left", client="", key=""),
        ]
    )
    store.write([row()])
    assert everything(path, "day") == everything(path, "client")
    assert everything(path) == Sums(5, 1, 1, 1, 400, 40, 80, 20, pytest.approx(1.5))
    by_day = read_sums(path, Question(("day", "model"), date(2026, 11, 1), date(2026, 11, 30)))
    assert [(group.names, group.sums.requests) for group in by_day] == [
        (("2026-11-17", "known"), 3),
        (("2026-11-18", "known"), 1),
        (("2026-11-18", "unknown"), 1),
    ]


@pytest.mark.parametrize("by", OF_REQUESTS)
def test_every_grouping_has_the_same_total(store: AccountStore, path: Path, by: str) -> None:
    store.write([row(key=f"k{number % 3}", model=f"m{number % 5}", at=NOON + number) for number in range(30)])
    assert everything(path, by).requests == 30
    assert everything(path, by).input == 3000


@pytest.mark.parametrize("by", [("day",), ("client",)])
def test_both_days_are_included_and_a_key_can_be_picked(store: AccountStore, path: Path, by) -> None:
    midnight = NOON - NOON % DAY
    for number, at in enumerate((midnight - 1, midnight, midnight + DAY - 1, midnight + DAY)):
        store.write([row(at, key="alice" if number % 2 else "bob")])
    that_day = date(2026, 11, 17)
    assert total(read_sums(path, Question(by, that_day, that_day))).requests == 2
    assert total(read_sums(path, Question(by, that_day, that_day, "bob"))).requests == 1
    assert read_sums(path, Question(by, that_day, that_day, "bob' OR 1=1 --")) == []


def test_groups_without_days_are_sorted_by_size(store: AccountStore, path: Path) -> None:
    store.write([row(key="small", cost=0.1), row(key="large", cost=3.0), row(key="middle", cost=1.0)])
    groups = read_sums(path, Question(("key",), date(2026, 1, 1), date(2026, 12, 31)))
    assert [group.names[0] for group in groups] == ["large", "middle", "small"]


def test_request_rows_are_deleted_before_daily_sums(store: AccountStore, path: Path, clock: Clock) -> None:
    store.write([row(), row(NOON + 20 * DAY)])
    clock.now = NOON + 32 * DAY
    assert store.tidy() is False
    assert everything(path, "client").requests == 1
    assert everything(path, "day").requests == 2
    clock.now = NOON + 401 * DAY
    store.tidy()
    assert everything(path, "client").requests == 0
    assert everything(path, "day").requests == 1


def test_cleanup_runs_in_small_steps(store: AccountStore, path: Path, clock: Clock) -> None:
    store.write([row() for _ in range(ROWS_IN_A_STEP + 5)])
    clock.now += 100 * DAY
    assert store.tidy() is True
    assert everything(path, "client").requests == 5
    assert store.tidy() is False
    assert everything(path, "client").requests == 0


def test_the_file_size_is_bounded_and_the_oldest_rows_are_deleted_first(path: Path, clock: Clock) -> None:
    store = AccountStore(path, days=400, request_days=31, megabytes=1, now=clock)
    for batch in range(60):
        clock.now = NOON + batch * 60
        store.write([row(clock.now - 1 + number / 1000, client_model="m" * 128) for number in range(500)])
        while store.tidy():
            pass
    assert path.stat().st_size < 2 * 1024 * 1024
    assert path.stat().st_size < store.file_bytes() < 8 * 1024 * 1024, "with the journal"
    left = everything(path, "client").requests
    assert 0 < left < 30_000
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT min(at) FROM request").fetchone()[0] > NOON + 60
    database.close()
    assert everything(path, "day").requests == 30_000, "the sums stay"


def test_excess_daily_sums_are_deleted_after_all_request_rows(path: Path, clock: Clock) -> None:
    store = AccountStore(path, days=400, request_days=31, megabytes=1, now=clock)
    clock.now = NOON + 40 * DAY
    for day in range(20):
        store.write([row(NOON + day * DAY, key=f"{'k' * 100}{number}") for number in range(500)])
    for _ in range(40):
        store.tidy()
    days = read_sums(path, Question(("day",), date(2026, 1, 1), date(2027, 12, 31)))
    assert 0 < len(days) < 20
    assert days[-1].names == ("2026-12-06",), "the oldest leave first"


def test_reading_an_unwritten_usage_file_gives_nothing(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_sums(path, Question(("day",), date(2026, 1, 1), date(2026, 12, 31)))


def test_daily_sums_support_fewer_groupings_than_request_rows() -> None:
    assert OF_DAYS.keys() < OF_REQUESTS.keys()


# --- the observer ------------------------------------------------------------------------------------


def record_of(usage: Usage | None, **fields) -> Record:
    record = Record("req_1", "POST", "/v1/chat/completions", **fields)
    record.protocol, record.model, record.upstream_model, record.status = "openai_chat", "gpt-5", "known", 200
    record.usage = usage
    record.asks_model()
    return record


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    written: list[Row] = []
    monkeypatch.setattr(UsageWriter, "put", lambda _, each: written.append(each))
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


def test_a_row_holds_each_token_once_and_its_cost(store: AccountStore, rows: list[Row]) -> None:
    UsageObserver(store, PRICES)(record_of(USAGE, key="alice", client="codex"))
    assert rows[0][1:11] == (
        *("alice", "openai_chat", "codex", "gpt-5", "known"),
        *(65, 40, 7, 3),
        pytest.approx((65 * 1.0 + 40 * 0.1 + 10 * 10.0) / 1e6),
    )
    assert rows[0][13:] == ("completed", "", 200, "")


def test_a_row_has_its_service_tier_and_the_tiers_cost(store: AccountStore, rows: list[Row]) -> None:
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


def test_the_cost_uses_the_answering_models_price_if_known(store: AccountStore, rows: list[Row]) -> None:
    prices = PriceTable("USD", [PriceRow((f"known{digit}",), Price(digit, 0, 0)) for digit in (1, 2)])
    for asked, answered in [("known1", "known2"), ("known1", "unheard-of"), ("moving", "known2"), ("a", "b")]:
        record = record_of(USAGE)
        record.upstream_model, record.model_version = asked, answered
        UsageObserver(store, prices)(record)
    once, twice = pytest.approx(65 / 1e6), pytest.approx(130 / 1e6)
    assert [each.cost for each in rows] == [twice, once, twice, None]


def test_a_file_of_the_previous_version_gets_the_new_column_and_keeps_its_rows(
    path: Path, clock: Clock
) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(BEFORE_TIERS)
        database.execute(f"INSERT INTO request VALUES (NULL{', ?' * 16})", row()[:16])
        database.commit()
    everything = Question(("tier",), date(2026, 1, 1), date(2027, 1, 1))
    assert [(group.names, group.sums.requests) for group in read_sums(path, everything)] == [(("",), 1)]
    store = AccountStore(path, days=400, request_days=31, megabytes=256, now=clock)
    store.write([row(tier="flex", cost=1.0)])
    AccountStore(path, days=400, request_days=31, megabytes=256, now=clock).write([row(tier="flex")])
    told = {group.names[0]: group.sums.requests for group in read_sums(path, everything)}
    assert told == {"flex": 2, "": 1}


#: The request table of the version without service tiers.
BEFORE_TIERS = """
CREATE TABLE request (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, key TEXT NOT NULL, protocol TEXT NOT NULL, client TEXT NOT NULL,
    client_model TEXT NOT NULL, model TEXT NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL,
    output INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost REAL, seconds REAL NOT NULL, first_byte REAL,
    outcome TEXT NOT NULL, error TEXT NOT NULL, status INTEGER NOT NULL
);
CREATE TABLE day (
    day TEXT NOT NULL, key TEXT NOT NULL, protocol TEXT NOT NULL, model TEXT NOT NULL,
    requests INTEGER NOT NULL, failed INTEGER NOT NULL, client_left INTEGER NOT NULL,
    unpriced INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL, output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL, cost REAL NOT NULL,
    PRIMARY KEY (day, key, protocol, model)
) WITHOUT ROWID;
"""


def test_a_model_without_a_price_has_no_cost_and_no_usage_costs_nothing(
    store: AccountStore, rows: list[Row]
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


def test_a_request_that_reached_no_model_has_no_row(store: AccountStore, rows: list[Row]) -> None:
    UsageObserver(store, PRICES)(Record("req_1", "GET", "/v1/models"))
    assert rows == []


def test_client_chosen_names_are_truncated(store: AccountStore, rows: list[Row]) -> None:
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
    writer: UsageWriter, store: AccountStore, path: Path, caplog: pytest.LogCaptureFixture
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
    assert [each.message for each in warnings(caplog)] == ["accounts cannot be written, they wait"]
    assert warnings(caplog)[0].reason == "database is locked"


def test_a_full_disk_delays_rows_and_then_drops_them_with_a_count(
    store: AccountStore, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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


def test_a_corrupt_usage_file_drops_rows_without_errors(writer: UsageWriter, path: Path) -> None:
    path.write_bytes(b"not a database" * 100)
    before = dropped()
    writer.put(row())
    assert eventually(lambda: dropped() == before + 1)


def test_pending_rows_are_written_when_the_process_ends(path: Path) -> None:
    code = f"""
from pathlib import Path
from bridge.observe.usage_writer import UsageWriter
from bridge.state.usage_store import AccountStore, Row
writer = UsageWriter(AccountStore(Path({str(path)!r}), days=1, request_days=1, megabytes=1))
for number in range(30):
    writer.put(Row({time.time()}, *"abcde", 1, 1, 1, 1, 0.1, 1.0, None, "completed", "", 200))
"""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert everything(path).requests == 30
    assert time.monotonic() - began < 30


def test_shutdown_does_not_wait_long_for_a_locked_file(store: AccountStore, path: Path, monkeypatch) -> None:
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_its_own_writer_thread(writer: UsageWriter, path: Path) -> None:
    writer.put(row())
    assert eventually(lambda: everything(path).requests == 1)
    code = """
import os, sys, time
from pathlib import Path
from bridge.observe.usage_writer import UsageWriter
from bridge.state.usage_store import AccountStore, Row
writer = UsageWriter(AccountStore(Path(sys.argv[1]), days=9999, request_days=9999, megabytes=1))
one = Row(time.time(), *"abcde", 1, 1, 1, 1, 0.1, 1.0, None, "completed", "", 200)
writer.put(one)
time.sleep(1.5)
if (child := os.fork()) == 0:
    writer.put(one)
    sys.exit(0)
os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(path)], check=True, timeout=60)
    assert everything(path).requests == 3
