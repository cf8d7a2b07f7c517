"""The signature store: shared by all workers, and separate for each owner."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FAMILY = "gemini-3"
ME = "me"


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.name for record in caplog.records if record.levelno == logging.WARNING]


def test_only_stored_signatures_are_found(backend, caplog: pytest.LogCaptureFixture) -> None:
    store = backend.signatures()
    store.keep(ME, FAMILY, {"1": "one", "2": "two", "3": "three"})
    assert store.find(ME, FAMILY, ["1", "3", "4"]) == {"1": "one", "3": "three"}
    assert store.find(ME, FAMILY, iter(["2"])) == {"2": "two"}
    assert store.find(ME, FAMILY, []) == {}
    assert warnings_in(caplog) == []


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kept=st.dictionaries(st.text(), st.text(), max_size=5),
    family=st.uuids().map(str),
)
def test_any_text_is_stored_unchanged(backend, kept: dict[str, str], family: str) -> None:
    store = backend.signatures()
    store.keep(ME, family, kept)
    assert store.find(ME, family, [*kept, "one that was not"]) == kept


def test_families_are_separated(backend) -> None:
    store = backend.signatures()
    store.keep(ME, "a", {"1": "of a"})
    store.keep(ME, "b", {"1": "of b"})
    assert store.find(ME, "a", ["1"]) == {"1": "of a"}
    assert store.find(ME, "b", ["1"]) == {"1": "of b"}
    assert store.find(ME, "c", ["1"]) == {}


def test_owners_are_separated(backend) -> None:
    store = backend.signatures()
    store.of("a").keep(FAMILY, {"1": "of a"})
    assert store.of("b").find(FAMILY, ["1"]) == {}
    store.of("b").keep(FAMILY, {"1": "of b"})
    assert store.of("a").find(FAMILY, ["1"]) == {"1": "of a"}
    assert store.of("b").find(FAMILY, ["1"]) == {"1": "of b"}
    assert store.of("").find(FAMILY, ["1"]) == {}


def test_the_newest_signature_of_a_call_wins(backend) -> None:
    store = backend.signatures()
    store.keep(ME, FAMILY, {"1": "old"})
    store.keep(ME, FAMILY, {"1": "new"})
    assert store.find(ME, FAMILY, ["1"]) == {"1": "new"}


def test_two_workers_see_what_the_other_kept(backend) -> None:
    one, other = backend.signatures(), backend.signatures()
    one.keep(ME, FAMILY, {"1": "one"})
    other.keep(ME, FAMILY, {"2": "two"})
    assert one.find(ME, FAMILY, ["1", "2"]) == other.find(ME, FAMILY, ["1", "2"]) == {"1": "one", "2": "two"}


def test_signatures_survive_reopening(backend) -> None:
    backend.signatures().keep(ME, FAMILY, {"1": "one"})
    assert backend.signatures().find(ME, FAMILY, ["1"]) == {"1": "one"}


def test_threads_share_the_store(backend, caplog: pytest.LogCaptureFixture) -> None:
    store = backend.signatures()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.keep(ME, FAMILY, {str(number): "s"}), range(64)))
        found = list(pool.map(lambda number: store.find(ME, FAMILY, [str(number)]), range(64)))
    assert found == [{str(number): "s"} for number in range(64)]
    assert warnings_in(caplog) == []


def test_a_missing_signature_is_found_once_it_is_stored(backend) -> None:
    store = backend.signatures()
    assert store.find(ME, "f", ["a"]) == {}
    store.keep(ME, "f", {"a": "signature"})
    assert store.find(ME, "f", ["a"]) == {"a": "signature"}


def test_missing_signatures_are_cached_for_a_limited_time(backend, clock) -> None:
    one, other = backend.signatures(clock), backend.signatures(clock)
    assert one.find(ME, "f", ["a"]) == {}
    other.keep(ME, "f", {"a": "signature"})
    clock.now += 3600
    assert one.find(ME, "f", ["a"]) == {"a": "signature"}


def test_the_first_call_of_a_long_history_keeps_its_signature(backend) -> None:
    store = backend.signatures()
    store.keep(ME, FAMILY, {"first": "1", "last": "2"})
    ids = ["first", *map(str, range(1000)), "last"]
    assert store.find(ME, FAMILY, ids) == {"first": "1", "last": "2"}
