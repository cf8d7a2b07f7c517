"""The store of summaries: whoever claims one writes it, and everybody of its owner finds it."""

from __future__ import annotations

import random
import threading

import pytest

from bridge.state.summary_store import FAILURES_LAST, MOST_FAILURES, Claim

ONE, TWO = bytes(range(32)), bytes(range(32, 64))


def test_a_kept_summary_is_found_by_every_worker_of_its_owner_alone(backend, clock):
    backend.summaries(clock).keep("key:1", ONE, "Ärger mit \x00 🛶")
    assert backend.summaries(clock).find("key:1", [TWO, ONE]) == {ONE: "Ärger mit \x00 🛶"}
    assert backend.summaries(clock).find("key:2", [TWO, ONE]) == {}


def test_many_digests_are_looked_up_at_once(backend, clock):
    store = backend.summaries(clock)
    digests = [random.randbytes(32) for _ in range(1200)]
    store.keep("me", digests[0], "first")
    store.keep("me", digests[-1], "last")
    assert store.find("me", digests) == {digests[0]: "first", digests[-1]: "last"}


def test_one_maker_at_a_time_writes_a_summary(backend, clock):
    store = backend.summaries(clock)
    assert store.claim("me", ONE, "a", 60) is Claim.MINE
    assert backend.summaries(clock).claim("me", ONE, "b", 60) is Claim.OTHERS
    assert store.claim("me", TWO, "b", 60) is Claim.MINE
    assert store.find("me", [ONE]) == {}
    store.keep("me", ONE, "text")
    assert store.claim("me", ONE, "b", 60) is Claim.MADE


def test_a_maker_extends_its_claim_and_a_silent_one_loses_it(backend, clock):
    store = backend.summaries(clock)
    store.claim("me", ONE, "a", 60)
    clock.now += 50
    assert store.claim("me", ONE, "a", 60) is Claim.MINE
    clock.now += 50
    assert store.claim("me", ONE, "b", 60) is Claim.OTHERS
    clock.now += 11
    assert store.claim("me", ONE, "b", 60) is Claim.MINE


def test_a_released_claim_is_free_and_does_not_count_as_a_failure(backend, clock):
    store = backend.summaries(clock)
    for maker in "abcdef":
        assert store.claim("me", ONE, maker, 60) is Claim.MINE
        store.release("me", ONE, maker, failed=False)


@pytest.mark.parametrize("silent", [False, True])
def test_after_three_failures_nobody_tries_for_some_time(backend, clock, silent):
    store = backend.summaries(clock)
    for number in range(MOST_FAILURES):
        assert store.claim("me", ONE, str(number), 60) is Claim.MINE
        if silent:
            clock.now += 61
        else:
            store.release("me", ONE, str(number), failed=True)
    assert store.claim("me", ONE, "more", 60) is Claim.GIVEN_UP
    assert store.claim("me", TWO, "more", 60) is Claim.MINE
    clock.now += FAILURES_LAST + 1
    assert store.claim("me", ONE, "later", 60) is Claim.MINE


def test_only_the_maker_releases_its_claim(backend, clock):
    store = backend.summaries(clock)
    store.claim("me", ONE, "a", 60)
    store.release("me", ONE, "b", failed=True)
    assert store.claim("me", ONE, "c", 60) is Claim.OTHERS
    store.keep("me", ONE, "text")
    store.release("me", ONE, "a", failed=True)
    assert store.find("me", [ONE]) == {ONE: "text"}


def test_of_many_at_the_same_time_one_gets_the_claim(backend, clock):
    claims: list[Claim] = []

    def ask(maker: int) -> None:
        claims.append(backend.summaries(clock).claim("me", ONE, str(maker), 60))

    threads = [threading.Thread(target=ask, args=(each,)) for each in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each.name for each in claims) == ["MINE"] + ["OTHERS"] * 7


def test_the_secret_is_the_same_for_all_workers_and_after_a_restart(backend):
    secret = backend.summaries().secret()
    assert len(secret) == 32
    assert backend.summaries().secret() == secret


def test_old_summaries_are_deleted_and_a_full_store_deletes_the_oldest(backend, clock):
    store = backend.summaries(clock, days=1, megabytes=1)
    store.keep("me", ONE, "old")
    clock.now += 86_401
    digests = [random.randbytes(32) for _ in range(100)]
    for digest in digests:
        clock.now += 1
        store.keep("me", digest, "x" * 20_000)
    found = store.find("me", [ONE, *digests])
    assert ONE not in found
    assert 50 <= len(found) <= 60 + 50
    assert digests[-1] in found
