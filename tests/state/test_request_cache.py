"""The store of the request cache: entries are found in their scope until they expire or make room."""

from __future__ import annotations

import random

from bridge.state.request_cache_store import WRITES_BETWEEN_TIDYING

DIGEST = bytes(range(32))
MEGABYTE = 1024 * 1024


def test_a_kept_entry_is_found_by_every_worker_with_its_age(backend, clock):
    backend.request_cache(clock).keep("key:1", DIGEST, b"data", lifetime=60)
    clock.now += 20
    found = backend.request_cache(clock).find("key:1", DIGEST)
    assert found is not None
    assert (found.data, round(found.age)) == (b"data", 20)


def test_an_entry_is_found_only_in_its_scope_and_by_its_digest(backend, clock):
    cache = backend.request_cache(clock)
    cache.keep("key:1", DIGEST, b"data", lifetime=60)
    assert cache.find("key:2", DIGEST) is None
    assert cache.find("key:1", DIGEST[::-1]) is None


def test_an_entry_expires(backend, clock):
    cache = backend.request_cache(clock)
    cache.keep("", DIGEST, b"data", lifetime=60)
    clock.now += 60
    assert cache.find("", DIGEST) is None


def test_a_newer_entry_replaces_the_older_one(backend, clock):
    cache = backend.request_cache(clock)
    cache.keep("", DIGEST, b"old", lifetime=60)
    clock.now += 50
    cache.keep("", DIGEST, b"new", lifetime=60)
    clock.now += 50
    found = cache.find("", DIGEST)
    assert found is not None
    assert (found.data, round(found.age)) == (b"new", 50)


def test_clear_deletes_one_scope_or_all_and_counts(backend, clock):
    cache = backend.request_cache(clock)
    for scope in ("key:1", "key:1", "key:2", "key:3"):
        cache.keep(scope, random.randbytes(32), b"data", lifetime=60)
    assert cache.clear("key:1") == 2
    assert cache.clear("key:1") == 0
    assert cache.clear() == 2


def test_a_full_cache_deletes_the_oldest_entries(backend, clock):
    cache = backend.request_cache(clock, megabytes=1)
    digests = [random.randbytes(32) for _ in range(WRITES_BETWEEN_TIDYING)]
    for digest in digests:
        clock.now += 1
        cache.keep("", digest, b"x" * (MEGABYTE // 50), lifetime=86400)
    kept = [digest for digest in digests if cache.find("", digest)]
    assert kept == digests[-50:]


def test_tidying_deletes_expired_entries(backend, clock):
    cache = backend.request_cache(clock)
    cache.keep("old", DIGEST, b"data", lifetime=1)
    clock.now += 2
    for _ in range(WRITES_BETWEEN_TIDYING):
        cache.keep("new", DIGEST, b"data", lifetime=60)
    assert cache.clear("old") == 0
