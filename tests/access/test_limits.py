"""Limits in the shared ledger: between threads, between processes, and with an unusable file."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from waiting import eventually

from bridge.access.limits import NOT_ENFORCED, Admission, CostOf, Limiter, free
from bridge.errors import BudgetSpent, InvalidRequest, LimitReached
from bridge.gemini.types import Usage
from bridge.observe.record import Record
from bridge.settings.limits import Limits
from bridge.state.key_store import Key, Rules
from bridge.state.sqlite import database as database_module
from bridge.state.sqlite import ledger as ledger_module
from bridge.state.sqlite.ledger import DEAD_AFTER, PAUSE_AFTER_FAILURE, SqliteLedger

NO_LIMITS = Limits()
NOON = 20_000 * 86400 + 43200.0


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits.sqlite3"


Make = Callable[..., Limiter]


@pytest.fixture
def worker(path: Path, clock: Clock) -> Make:
    """Each call makes another worker on the same file."""

    def make(total: Limits = NO_LIMITS, cost_of: CostOf = free) -> Limiter:
        return Limiter(SqliteLedger(path, clock, clock), total, cost_of)

    return make


def key(name: str = "alice", **limits: float) -> Key:
    return Key(f"id_{name}", name, Rules(limits=Limits(**limits)), 0.0)


def record(tokens: int = 0) -> Record:
    made = Record("req_1", "POST", "/v1/chat/completions")
    made.usage = Usage({"totalTokenCount": tokens})
    return made


def passes(admission: Admission) -> bool:
    return admission.refusal is None


def use(limiter: Limiter, holder: Key | None, tokens: int = 0) -> Admission:
    """Run a request from start to end."""
    admission = limiter.admit(holder)
    if admission.settle is not None:
        admission.settle(record(tokens))
    return admission


# --- each limit --------------------------------------------------------------------------------------


def test_a_key_without_limits_writes_nothing(worker: Make, path: Path) -> None:
    limiter = worker()
    for holder in (None, key()):
        assert use(limiter, holder, 100) == Admission()
        assert limiter.look(holder) == ()
    assert not path.exists()


def test_requests_per_minute(worker: Make, clock: Clock) -> None:
    one, other, alice = worker(), worker(), key(requests_per_minute=3)
    assert [use(limiter, alice).allowances[0].remaining for limiter in (one, other, one)] == [2, 1, 0]
    clock.now += 20.5
    refused = other.admit(alice)
    assert refused.refusal is not None
    assert type(refused.refusal) is LimitReached
    assert refused.refusal.message == (
        "The limit of 3 requests per minute for the key 'alice' is reached; try again in 41 s."
    )
    assert refused.refusal.retry_after_seconds == 41
    assert refused.allowances[0].remaining == 0
    assert passes(other.admit(key("bob", requests_per_minute=3))), "a limit is a key's own"
    clock.now += 41
    assert passes(other.admit(alice))


def test_a_refused_request_does_not_count(worker: Make, clock: Clock) -> None:
    limiter, alice = worker(), key(requests_per_minute=1)
    use(limiter, alice)
    for _ in range(50):
        clock.now += 1
        assert not passes(limiter.admit(alice))
    clock.now += 11
    assert passes(limiter.admit(alice))


def test_tokens_per_minute_are_counted_when_the_request_ends(worker: Make, clock: Clock) -> None:
    one, other, alice = worker(), worker(), key(tokens_per_minute=1000)
    first = one.admit(alice)
    assert passes(first)
    assert passes(other.admit(alice)), "nobody knows yet what the first will use"
    clock.now += 90
    first.settle(record(1500))
    refused = other.admit(alice)
    assert not passes(refused)
    assert refused.refusal.retry_after_seconds == 61
    assert [(left.unit, left.remaining) for left in refused.allowances] == [("tokens", 0)]
    clock.now += 61
    assert passes(other.admit(alice))


def test_tokens_per_day_reset_at_midnight(worker: Make, clock: Clock) -> None:
    limiter, alice = worker(), key(tokens_per_day=100)
    use(limiter, alice, 60)
    clock.now += 3600
    use(limiter, alice, 60)
    refusal = limiter.admit(alice).refusal
    assert isinstance(refusal, BudgetSpent)
    assert "100 tokens per day for the key 'alice' is reached" in refusal.message
    assert refusal.message.endswith("it is free again at 2024-10-05 00:00 UTC.")
    assert refusal.retry_after_seconds == 11 * 3600
    assert not refusal.retryable
    clock.now += 11 * 3600 - 100
    assert type(limiter.admit(alice).refusal) is LimitReached, "close to midnight waiting is worth it"
    clock.now += 100
    assert passes(limiter.admit(alice))


def test_cost_per_day(worker: Make, clock: Clock) -> None:
    limiter = worker(cost_of=lambda ended: ended.usage.total / 1000)
    alice = key(cost_per_day=2.5)
    use(limiter, alice, 2400)
    assert passes(limiter.admit(alice))
    use(limiter, alice, 100)
    refusal = limiter.admit(alice).refusal
    assert "a cost of 2.5 per day" in refusal.message
    clock.now += 43200
    assert passes(limiter.admit(alice))


def test_concurrent_answers(worker: Make) -> None:
    one, other, alice = worker(), worker(), key(streams=2)
    first, second = one.admit(alice), other.admit(alice)
    for limiter in (one, other):
        refused = limiter.admit(alice).refusal
        assert "2 answers at the same time" in refused.message
        assert refused.retry_after_seconds == 5
    first.settle(record())
    assert passes(other.admit(alice))
    assert not passes(one.admit(alice))
    second.settle(record())
    assert passes(one.admit(alice))


def test_the_total_limit_covers_all_keys_and_keyless_requests(worker: Make) -> None:
    limiter = worker(Limits(requests_per_minute=3))
    for holder in (key("alice"), key("bob", requests_per_minute=100), None):
        assert passes(use(limiter, holder))
    for holder in (key("alice"), key("bob", requests_per_minute=100), None):
        refused = limiter.admit(holder)
        assert "3 requests per minute for all clients together" in refused.refusal.message
    assert limiter.look(key("bob", requests_per_minute=100))[0].limit == 3, "the scarcer is told"


def test_a_request_refused_by_one_limit_is_booked_on_none(worker: Make, clock: Clock) -> None:
    limiter, alice = worker(Limits(streams=1)), key(requests_per_minute=2)
    running = limiter.admit(alice)
    assert not passes(limiter.admit(alice))
    running.settle(record())
    assert limiter.look(alice)[0].remaining == 1


def test_of_several_reached_limits_the_longest_delay_is_reported(worker: Make, clock: Clock) -> None:
    limiter, alice = worker(), key(requests_per_minute=1, tokens_per_day=10, streams=1)
    use(limiter, alice, 10)
    assert "10 tokens per day" in limiter.admit(alice).refusal.message


def test_changed_limits_apply_at_once(worker: Make) -> None:
    limiter = worker()
    use(limiter, key(requests_per_minute=1))
    assert not passes(limiter.admit(key(requests_per_minute=1)))
    assert passes(limiter.admit(key(requests_per_minute=2)))
    assert passes(limiter.admit(key()))


def test_reading_the_status_uses_no_limit(worker: Make) -> None:
    limiter, alice = worker(), key(requests_per_minute=2)
    for _ in range(5):
        assert limiter.look(alice)[0].remaining == 2


# --- edge cases --------------------------------------------------------------------------------------


def test_a_failing_price_table_does_not_keep_the_slot(worker: Make) -> None:
    def fails(_record: Record) -> float:
        raise ValueError("no price")

    limiter, alice = worker(cost_of=fails), key(streams=1)
    admission = limiter.admit(alice)
    with pytest.raises(ValueError, match="no price"):
        admission.settle(record(5))
    assert passes(limiter.admit(alice))


def test_a_clock_set_back_does_not_block_requests(path: Path, clock: Clock) -> None:
    limiter, alice = Limiter(SqliteLedger(path, clock), NO_LIMITS), key(requests_per_minute=1, streams=3)
    limiter.admit(alice)
    clock.now -= 7200
    assert passes(limiter.admit(alice))
    assert not passes(limiter.admit(alice))


def test_the_file_does_not_grow(worker: Make, clock: Clock, path: Path) -> None:
    limiter, alice = worker(), key(requests_per_minute=1000, tokens_per_day=10**9, streams=5)
    for _ in range(200):
        clock.now += 1800
        use(limiter, alice, 10)
    with closing(sqlite3.connect(path)) as database:
        counts = [
            database.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in ("second", "day", "running")
        ]
    assert counts == [1, 1, 0]


def test_an_answer_without_usage_counts_only_as_a_request(worker: Make) -> None:
    limiter, alice = worker(), key(requests_per_minute=5, tokens_per_minute=5)
    ended = record()
    ended.usage = None
    limiter.admit(alice).settle(ended)
    left = {each.unit: each.remaining for each in limiter.look(alice)}
    assert left == {"requests": 4, "tokens": 5}


# --- workers -----------------------------------------------------------------------------------------


def test_threads_never_get_more_than_the_limit(path: Path) -> None:
    limiter, alice = Limiter(SqliteLedger(path), NO_LIMITS), key(requests_per_minute=50, streams=20)
    with ThreadPoolExecutor(16) as pool:
        admitted = list(pool.map(lambda _: limiter.admit(alice), range(100)))
    assert sum(map(passes, admitted)) == 20
    for admission in admitted:
        if admission.settle:
            admission.settle(record())
    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(lambda _: passes(use(limiter, alice)), range(100))) <= 30


HURRY = """
import sys
from pathlib import Path
from bridge.state.key_store import Key, Rules
from bridge.state.sqlite.ledger import SqliteLedger
from bridge.access.limits import Limiter
from bridge.settings.limits import Limits
from bridge.state.sqlite import database
database.BUSY_TIMEOUT = 30
limiter = Limiter(SqliteLedger(Path(sys.argv[1])), Limits())
alice = Key("id_alice", "alice", Rules(limits=Limits(requests_per_minute=100)), 0.0)
print(sum(limiter.admit(alice).refusal is None for _ in range(80)))
"""


def test_processes_share_a_limit_exactly(path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", HURRY, str(path)], stdout=subprocess.PIPE) for _ in range(2)
    ]
    admitted = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(admitted) == 100
    assert [process.returncode for process in processes] == [0, 0]


def test_slots_of_a_dead_worker_are_released(worker: Make, clock: Clock) -> None:
    doomed, alive, alice = worker(), worker(), key(streams=1)
    doomed.admit(alice)
    clock.now += DEAD_AFTER - 1
    assert not passes(alive.admit(alice))
    clock.now += 2
    assert passes(alive.admit(alice))


def test_a_worker_with_heartbeats_keeps_its_slots(worker: Make, clock: Clock) -> None:
    busy, other, alice = worker(), worker(), key(streams=1)
    running = busy.admit(alice)
    for _ in range(10):
        clock.now += DEAD_AFTER - 1
        busy._ledger.beat()
        assert not passes(other.admit(alice))
    running.settle(record())
    busy._ledger.beat()
    assert passes(other.admit(alice))


def test_a_worker_sends_heartbeats_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "BETWEEN_BEATS", 0.05)
    monkeypatch.setattr(ledger_module, "DEAD_AFTER", 1.5)
    busy, other = (Limiter(SqliteLedger(path), NO_LIMITS) for _ in range(2))
    alice = key(streams=1)
    busy.admit(alice)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        assert not passes(other.admit(alice))
        time.sleep(0.1)
    pulse = busy._ledger._pulse
    del busy
    pulse.join(30)
    assert not pulse.is_alive(), "the pulse ends with its ledger"
    assert eventually(lambda: passes(other.admit(alice)))


# --- the file cannot be used -------------------------------------------------------------------------


@pytest.fixture
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        yield holder


def logged(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [line.missed_before for line in caplog.records if line.name == ledger_module.__name__]


def test_with_a_locked_file_requests_pass_and_only_the_first_waits(
    worker: Make, clock: Clock, locked: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    limiter, alice = worker(), key(requests_per_minute=1)
    use(limiter, alice)
    assert not passes(limiter.admit(alice))
    locked.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    admitted = [limiter.admit(alice) for _ in range(100)]
    assert time.monotonic() - began < 5, "not a hundred times a quarter of a second"
    assert all(passes(each) and each.note == NOT_ENFORCED and each.allowances == () for each in admitted)
    assert logged(caplog) == [0]
    clock.now += PAUSE_AFTER_FAILURE
    assert passes(limiter.admit(alice))
    assert logged(caplog) == [0, 99], "the log says how many passed unseen"
    locked.execute("ROLLBACK")
    clock.now += PAUSE_AFTER_FAILURE
    assert not passes(limiter.admit(alice)), "and then the limit holds again"


def test_threads_that_wait_together_time_out_together(path: Path, locked: sqlite3.Connection) -> None:
    limiter, alice = Limiter(SqliteLedger(path), NO_LIMITS), key(requests_per_minute=1)
    use(limiter, alice)
    locked.execute("BEGIN EXCLUSIVE")
    threads = [threading.Thread(target=limiter.admit, args=(alice,)) for _ in range(32)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began < 4, "not 32 times a quarter of a second"


def test_with_a_full_disk_requests_pass(worker: Make, clock: Clock) -> None:
    limiter, alice = worker(), key(requests_per_minute=100_000, tokens_per_day=10**9, streams=10)
    use(limiter, alice)
    connection = limiter._ledger._database._connection
    connection.execute("PRAGMA max_page_count = 1")  # SQLite then raises the same error as on a full disk
    outcomes = []
    for number in range(3000):
        clock.now += PAUSE_AFTER_FAILURE
        outcomes.append(use(limiter, key(f"somebody-{number}", requests_per_minute=5, tokens_per_day=9)))
    assert all(map(passes, outcomes))
    assert any(each.note == NOT_ENFORCED for each in outcomes), "the disk was full"


@pytest.mark.parametrize("kind", ["a directory", "not a database", "below a file", "of another shape"])
def test_with_an_invalid_file_requests_pass(
    path: Path, clock: Clock, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    match kind:
        case "a directory":
            path.mkdir()
        case "not a database":
            path.write_bytes(b"This is no database. " * 100)
        case "below a file":
            path.write_text("a file")
            path = path / "limits.sqlite3"
        case "of another shape":
            with closing(sqlite3.connect(path)) as database:
                database.execute("CREATE TABLE second (something_else TEXT)")
    limiter, alice = Limiter(SqliteLedger(path, clock, clock), Limits(streams=1)), key(requests_per_minute=1)
    for _ in range(5):
        assert passes(use(limiter, alice))
        assert limiter.look(alice) == ()
    assert logged(caplog) == [0]


def test_slots_are_released_although_the_end_could_not_be_written(
    worker: Make, clock: Clock, locked: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    one, other, alice = worker(), worker(), key(streams=2)
    first, second = one.admit(alice), one.admit(alice)
    locked.execute("BEGIN EXCLUSIVE")
    ended = record()
    first.settle(ended)
    assert ended.notes == {"limits_not_enforced": 1}
    locked.execute("ROLLBACK")
    clock.now += PAUSE_AFTER_FAILURE
    assert not passes(other.admit(alice)), "it does not know yet"
    one._ledger.beat()
    assert passes(other.admit(alice))
    second.settle(record())
    assert passes(one.admit(alice))


def test_a_request_that_could_not_be_booked_holds_no_slot(
    worker: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    limiter, alice = worker(), key(streams=1)
    use(limiter, alice)
    monkeypatch.setattr(ledger_module, "_SET_RUNNING", "INSERT INTO nowhere VALUES (?, ?, ?, ?)")
    assert limiter.admit(alice).note == NOT_ENFORCED
    monkeypatch.undo()
    clock.now += PAUSE_AFTER_FAILURE
    assert passes(limiter.admit(alice))


def test_a_briefly_locked_file_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = database_module.BUSY_TIMEOUT
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT", 40 * moment)
    limiter, alice = Limiter(SqliteLedger(path), NO_LIMITS), key(requests_per_minute=5)
    use(limiter, alice)
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        assert limiter.look(alice)[0].remaining == 4, "who only looks waits for nobody"
        release = threading.Timer(moment / 5, holder.execute, ("ROLLBACK",))
        release.start()
        assert limiter.admit(alice).note is None
        release.join()


def test_a_refused_request_is_not_counted_as_a_request(worker: Make, clock: Clock) -> None:
    limiter, holder = worker(), key(requests_per_minute=2)
    for _ in range(5):
        refused = record()
        admission = limiter.admit(holder)
        refused.failed(InvalidRequest("wrong"))
        clock.now += 3
        admission.settle(refused)
    assert [passes(use(limiter, holder)) for _ in range(3)] == [True, True, False]


def test_a_request_that_failed_upstream_is_counted(worker: Make) -> None:
    limiter, holder = worker(), key(requests_per_minute=1)
    failed = record()
    admission = limiter.admit(holder)
    failed.asks_model()
    failed.failed(InvalidRequest("the upstream says so"))
    admission.settle(failed)
    assert not passes(limiter.admit(holder))


def test_a_refusal_names_the_rule(worker: Make) -> None:
    mine, all_together = key(streams=1), Limits(requests_per_minute=1)
    limiter = worker(all_together)
    limiter.admit(mine)
    assert limiter.admit(None).refusal.rule == "limits.requests_per_minute"
    alone = worker()
    alone.admit(key("bob", streams=1))
    assert alone.admit(key("bob", streams=1)).refusal.rule == "key.streams"
