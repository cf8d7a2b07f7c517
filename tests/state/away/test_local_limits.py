"""Limits while the shared ledger is away: shares, days that go on, and usage that is booked once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.settings.limits import Limits
from bridge.state.away.ledger import FallbackLedger
from bridge.state.bridges import LateUsage
from bridge.state.errors import StorageUnavailable
from bridge.state.ledger import Booking, LimitedSubject
from bridge.state.postgres.bridges import PostgresBridges
from bridge.state.postgres.ledger import PostgresLedger
from bridge.state.sqlite.local_ledger import SqliteLocalLedger
from bridge.state.sqlite.waiting_rows import SqliteWaitingRows


class Machine:
    """One worker of a machine, whose database can be taken away."""

    def __init__(self, postgres, folder: Path) -> None:
        self.database = postgres.database()
        self._run = self.database.run
        self.shared = PostgresLedger(self.database)
        self.bridges = PostgresBridges(self.database, self.shared, folder)
        self.ledger = FallbackLedger(
            self.shared,
            SqliteLocalLedger(folder / "limits_away.sqlite3"),
            SqliteWaitingRows(folder / "limits_waiting.sqlite3"),
            self.bridges,
            folder / "bridges.alive",
        )

    def lose_the_database(self, after: bool = False) -> None:
        """`after`: the server executes each statement, and its answer is lost."""

        def run(*arguments, **named):
            if after:
                self._run(*arguments, **named)
            raise StorageUnavailable("away")

        self.database.run = run

    def find_the_database(self) -> None:
        self.database.run = self._run
        self.ledger.tick()

    def admits(self, subjects: list[LimitedSubject], tokens: int = 0) -> bool:
        booking = self.ledger.enter(subjects).booking
        if booking is not None:
            self.ledger.leave(booking, tokens, 0.0)
        return booking is not None

    def tokens(self) -> int:
        rows = self._run("SELECT coalesce(sum(tokens), 0)::bigint FROM gemini_bridge.day")
        return int(rows[0][0])


@pytest.fixture
def machine(postgres, tmp_path: Path) -> Machine:
    return Machine(postgres, tmp_path / "one")


def limited(**limits: float) -> list[LimitedSubject]:
    return [LimitedSubject("key:alice", "the key 'alice'", Limits(**limits))]


def test_a_day_goes_on_from_the_usage_that_was_known(machine: Machine) -> None:
    alice = limited(tokens_per_day=100)
    assert machine.admits(alice, 60)
    assert machine.admits(alice)  # reads 60
    machine.lose_the_database()
    assert machine.admits(alice, 30)
    assert machine.admits(alice, 30)
    assert not machine.admits(alice)
    machine.find_the_database()
    assert machine.tokens() == 120


def test_a_worker_that_starts_without_the_database_knows_the_day_and_the_other_bridges(
    machine: Machine, postgres, tmp_path: Path
) -> None:
    alice = limited(tokens_per_day=100)
    Machine(postgres, tmp_path / "two").ledger.tick()
    assert machine.admits(alice, 90)
    machine.ledger.look(alice)
    machine.ledger.tick()
    late = Machine(postgres, tmp_path / "one")
    late.lose_the_database()
    assert late.ledger.look(alice).parts == 2
    assert late.ledger.look(alice).spent[0].day_tokens == 45
    assert late.admits(alice, 5)
    assert not late.admits(alice)


def test_usage_is_booked_once_although_the_answers_of_the_database_are_lost(machine: Machine) -> None:
    alice = limited(tokens_per_day=1000)
    booking = machine.ledger.enter(alice).booking
    assert booking is not None
    machine.lose_the_database(after=True)
    machine.ledger.leave(booking, 7, 0.0)
    machine.ledger.tick()
    machine.ledger.tick()
    machine.find_the_database()
    machine.find_the_database()
    assert machine.tokens() == 7


def test_usage_counts_in_the_day_in_which_the_request_ended(machine: Machine) -> None:
    rows = [LateUsage(f"request_{day}", ["key:alice", "all"], 5, 0.5, day * 86400.0 + 9) for day in (20, 21)]
    machine.bridges.book(rows)
    machine.bridges.book(rows[:1])
    found = machine.database.run("SELECT subject, day, tokens, cost FROM gemini_bridge.day ORDER BY 1, 2")
    assert found == [(name, day, 5, 0.5) for name in ("all", "key:alice") for day in (20, 21)]


def test_running_answers_count_on_both_sides_of_an_outage(machine: Machine) -> None:
    alice = limited(streams=2)
    before = machine.ledger.enter(alice).booking
    assert before is not None
    machine.lose_the_database()
    during = machine.ledger.enter(alice).booking
    assert during is not None
    assert machine.ledger.enter(alice).booking is None
    machine.find_the_database()
    machine.shared.renew()
    assert machine.ledger.enter(alice).booking is None
    for each in (before, during):
        machine.ledger.leave(each, 0, 0.0)
    assert machine.ledger.enter(alice).booking is not None


def test_usage_that_finds_no_space_is_reported(machine: Machine, tmp_path: Path) -> None:
    alice = limited(tokens_per_day=1000)
    full = SqliteWaitingRows(tmp_path / "full.sqlite3", most=0)
    local = SqliteLocalLedger(tmp_path / "limits_away.sqlite3")
    ledger = FallbackLedger(machine.shared, local, full, machine.bridges, tmp_path / "bridges.alive")
    machine.lose_the_database()
    with pytest.raises(StorageUnavailable, match="is full"):
        ledger.leave(Booking(tuple(alice), 0.0, "request_1"), 7, 0.0)


def test_a_share_is_never_nothing() -> None:
    assert Limits(1, 1, 1, 1.0, 1).divided(4) == Limits(1, 1, 1, 0.25, 1)
    assert Limits().divided(4) == Limits()
    assert Limits(9, 10, 11, 8.0, 12).divided(2) == Limits(4, 5, 5, 4.0, 6)
