"""The usage store: rows and sums agree, old ones are deleted, refusals are counted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest
from usage_rows import NOON, row

from bridge.state.usage_store import (
    DAY_GROUPINGS,
    GROUPINGS,
    MOST_REFUSALS,
    Assignment,
    ExperimentRequest,
    Refusal,
    UsageQuery,
    UsageStore,
    UsageSums,
    total,
)

Clock = Callable[[], float]
DAY = 86_400
ROWS_IN_A_STEP = 1000
ALL_DAYS = (date(2000, 1, 1), date(2100, 1, 1))


@pytest.fixture(autouse=True)
def at_noon(clock) -> None:
    clock.now = NOON


@pytest.fixture
def store(backend, clock) -> UsageStore:
    return backend.usage(clock)


def everything(store: UsageStore, by: str = "key") -> UsageSums:
    return total(store.sums(UsageQuery((by,), *ALL_DAYS)))


def test_daily_sums_match_request_rows(store: UsageStore) -> None:
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
    assert everything(store, "day") == everything(store, "client")
    assert everything(store) == UsageSums(5, 1, 1, 1, 400, 40, 80, 20, pytest.approx(1.5))
    by_day = store.sums(UsageQuery(("day", "model"), date(2026, 11, 1), date(2026, 11, 30)))
    assert [(group.names, group.sums.requests) for group in by_day] == [
        (("2026-11-17", "known"), 3),
        (("2026-11-18", "known"), 1),
        (("2026-11-18", "unknown"), 1),
    ]


@pytest.mark.parametrize("by", ["day", "client"])
def test_answers_of_the_request_cache_and_what_they_saved_add_up(store: UsageStore, by: str) -> None:
    store.write([row(), row(cost=0.0, from_cache=1, saved=0.5)])
    store.write([row(NOON + DAY, cost=0.0, from_cache=1, saved=0.25), row(cost=0.0, from_cache=1)])
    found = everything(store, by)
    assert (found.requests, found.from_cache) == (4, 3)
    assert (found.cost, found.saved) == pytest.approx((0.5, 0.75))


@pytest.mark.parametrize("by", GROUPINGS)
def test_every_grouping_has_the_same_total(store: UsageStore, by: str) -> None:
    store.write([row(key=f"k{number % 3}", model=f"m{number % 5}", at=NOON + number) for number in range(30)])
    assert everything(store, by).requests == 30
    assert everything(store, by).input == 3000


@pytest.mark.parametrize("by", [("day",), ("client",)])
def test_both_days_are_included_and_a_key_can_be_picked(store: UsageStore, by) -> None:
    midnight = NOON - NOON % DAY
    for number, at in enumerate((midnight - 1, midnight, midnight + DAY - 1, midnight + DAY)):
        store.write([row(at, key="alice" if number % 2 else "bob")])
    that_day = date(2026, 11, 17)
    assert total(store.sums(UsageQuery(by, that_day, that_day))).requests == 2
    assert total(store.sums(UsageQuery(by, that_day, that_day, "bob"))).requests == 1
    assert store.sums(UsageQuery(by, that_day, that_day, "bob' OR 1=1 --")) == []


def test_groups_without_days_are_sorted_by_size(store: UsageStore) -> None:
    store.write([row(key="small", cost=0.1), row(key="large", cost=3.0), row(key="middle", cost=1.0)])
    groups = store.sums(UsageQuery(("key",), date(2026, 1, 1), date(2026, 12, 31)))
    assert [group.names[0] for group in groups] == ["large", "middle", "small"]


def test_request_rows_are_deleted_before_daily_sums(store: UsageStore, clock: Clock) -> None:
    store.write([row(), row(NOON + 20 * DAY)])
    clock.now = NOON + 32 * DAY
    assert store.tidy() is False
    assert everything(store, "client").requests == 1
    assert everything(store, "day").requests == 2
    clock.now = NOON + 401 * DAY
    store.tidy()
    assert everything(store, "client").requests == 0
    assert everything(store, "day").requests == 1


def test_cleanup_runs_in_small_steps(store: UsageStore, clock: Clock) -> None:
    store.write([row() for _ in range(ROWS_IN_A_STEP + 5)])
    clock.now += 100 * DAY
    assert store.tidy() is True
    assert everything(store, "client").requests == 5
    assert store.tidy() is False
    assert everything(store, "client").requests == 0


def test_excess_daily_sums_are_deleted_after_all_request_rows(backend, clock: Clock) -> None:
    store = backend.usage(clock, megabytes=1)
    clock.now = NOON + 40 * DAY
    for day in range(20):
        store.write([row(NOON + day * DAY, key=f"{'k' * 100}{number}") for number in range(500)])
    for _ in range(40):
        store.tidy()
    days = store.sums(UsageQuery(("day",), date(2026, 1, 1), date(2027, 12, 31)))
    assert 0 < len(days) < 20
    assert days[-1].names == ("2026-12-06",), "the oldest leave first"


def test_daily_sums_support_fewer_groupings_than_request_rows() -> None:
    assert set(DAY_GROUPINGS) < set(GROUPINGS)


def test_before_the_first_row_there_is_nothing_to_read(store: UsageStore) -> None:
    query = UsageQuery(("day",), *ALL_DAYS)
    assert (store.sums(query), store.refusals(query), store.stored_bytes()) == ([], [], 0)
    store.write([row()])
    assert store.stored_bytes() > 0


def test_refusals_add_up_the_most_frequent_first(store: UsageStore) -> None:
    of_alice = Refusal("2026-11-17", "alice", "openai_chat", "key.models", "gpt-5")
    of_bob = of_alice._replace(key="bob")
    store.count_refusals({of_alice: 2, of_bob: 3})
    store.count_refusals({of_alice: 4, of_alice._replace(day="2026-11-18"): 1})
    query = UsageQuery(("day",), date(2026, 11, 17), date(2026, 11, 17))
    assert [tuple(each) for each in store.refusals(query)] == [
        ("alice", "key.models", "gpt-5", 6),
        ("bob", "key.models", "gpt-5", 3),
    ]
    only_bob = UsageQuery(("day",), *ALL_DAYS, "bob")
    assert [each.requests for each in store.refusals(only_bob)] == [3]


def test_of_too_many_models_the_names_are_left_out(store: UsageStore) -> None:
    refusals = [Refusal("2026-11-17", "k", "p", "r", f"m{number}") for number in range(MOST_REFUSALS + 5)]
    store.count_refusals(dict.fromkeys(refusals, 1))
    found = store.refusals(UsageQuery(("day",), *ALL_DAYS))
    assert len(found) == MOST_REFUSALS + 1
    assert found[0] == ("k", "r", "", 5)


# --- requests of experiments --------------------------------------------------------------------------


def of_experiment(at: float = NOON, **different: object):
    usual = {"experiment": "pro", "arm": "a", "conversation": "c1", "streamed": 1}
    return row(at, **{**usual, **different})


def test_the_requests_of_an_experiment_come_back_in_the_order_of_their_ends(store: UsageStore) -> None:
    store.write(
        [
            of_experiment(NOON + 2, arm="b", malformed=2, fallbacks=1, outcome="failed", cost=None),
            of_experiment(NOON + 1, streamed=0, conversation="c2", assignment=Assignment.CHOSEN),
            of_experiment(NOON, first_byte=None),
            of_experiment(NOON, experiment="other"),
            row(),
        ]
    )
    day = date(2026, 11, 17)
    assert store.experiment_requests("pro", day, day) == [
        ExperimentRequest("alice", "c1", "a", "", 100, 10, 0.5, 1.5, None, False, 0, 0),
        ExperimentRequest("alice", "c2", "a", "chosen", 100, 10, 0.5, 1.5, None, False, 0, 0),
        ExperimentRequest("alice", "c1", "b", "", 100, 10, None, 1.5, 0.2, True, 2, 1),
    ]
    assert store.experiment_requests("", *ALL_DAYS) == []


def test_both_days_of_an_experiment_are_included(store: UsageStore) -> None:
    midnight = NOON - NOON % DAY
    for number, at in enumerate((midnight - 1, midnight, midnight + DAY - 1, midnight + DAY)):
        store.write([of_experiment(at, conversation=f"c{number}")])
    day = date(2026, 11, 17)
    assert [each.conversation for each in store.experiment_requests("pro", day, day)] == ["c1", "c2"]
    assert len(store.experiment_requests("pro", *ALL_DAYS)) == 4


def test_before_the_first_row_no_experiment_has_requests(store: UsageStore) -> None:
    assert store.experiment_requests("pro", *ALL_DAYS) == []
