"""Access tokens are renewed in the background before they expire, by one fetch for all waiting callers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest
from waiting import eventually

from bridge.errors import UpstreamMisconfigured, UpstreamRefused, UpstreamUnreachable
from bridge.observe.logs import JsonFormatter
from bridge.upstream.auth.access_tokens import AHEAD, BETWEEN_TRIES, AccessToken, TokenCredentials
from bridge.upstream.auth.credentials import Credential
from bridge.upstream.auth.single_flight import SingleFlight

LIFETIME = 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Returns numbered tokens; waits for `free` first, and raises `failure` if there is one."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.fetched = 0
        self.free = threading.Event()
        self.free.set()
        self.failure: Exception | None = None
        self.lifetime = LIFETIME

    def __call__(self) -> AccessToken:
        assert self.free.wait(30)
        self.fetched += 1
        if self.failure is not None:
            raise self.failure
        value = f"token-{self.fetched}"
        return AccessToken(value, {"Authorization": f"Bearer {value}"}, self.clock() + self.lifetime)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source(clock: Clock) -> Source:
    return Source(clock)


@pytest.fixture
def access(source: Source, clock: Clock) -> TokenCredentials:
    return TokenCredentials(source, 0.02, clock)


def first(access: TokenCredentials) -> str:
    return next(
        credential for credential in access.credentials("m") if isinstance(credential, Credential)
    ).secret


def until(condition: object, source: Source, count: int) -> None:
    eventually(lambda: source.fetched >= count, every=0.005)
    assert source.fetched == count, condition


def test_a_token_is_fetched_once_and_used_until_it_expires(
    access: TokenCredentials, source: Source, clock: Clock
) -> None:
    assert first(access) == "token-1"
    clock.now += LIFETIME - AHEAD - 1
    assert first(access) == "token-1"
    assert source.fetched == 1


def test_a_credential_holds_its_headers_and_hides_them_in_repr(access: TokenCredentials) -> None:
    credential = next(each for each in access.credentials("m") if isinstance(each, Credential))
    assert credential.headers == {"Authorization": "Bearer token-1"}
    assert "token-1" not in repr(credential)
    assert "token-1" not in repr(AccessToken("token-1", credential.headers))


def test_a_token_near_expiry_is_renewed_while_it_is_still_used(
    access: TokenCredentials, source: Source, clock: Clock
) -> None:
    first(access)
    clock.now += LIFETIME - AHEAD
    source.free.clear()
    began = time.monotonic()
    assert [first(access) for _ in range(20)] == ["token-1"] * 20
    assert time.monotonic() - began < 10, "nobody waits"
    source.free.set()
    until("one fetch for all of them", source, 2)
    assert eventually(lambda: first(access) == "token-2", every=0.005)


def test_concurrent_callers_without_a_token_share_one_fetch(access: TokenCredentials, source: Source) -> None:
    source.free.clear()
    got: list[str] = []
    threads = [threading.Thread(target=lambda: got.append(first(access))) for _ in range(24)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert got == []
    source.free.set()
    for thread in threads:
        thread.join(30)
    assert got == ["token-1"] * 24
    assert source.fetched == 1


def test_a_waiting_caller_gets_control_every_tick(access: TokenCredentials, source: Source) -> None:
    source.free.clear()
    credentials = access.credentials("m")
    assert [next(credentials), next(credentials)] == [(), ()]
    source.free.set()
    assert any(isinstance(credential, Credential) for credential in credentials)


def test_an_expired_token_is_not_used(access: TokenCredentials, source: Source, clock: Clock) -> None:
    first(access)
    clock.now += LIFETIME
    assert first(access) == "token-2"


def test_a_refused_token_is_replaced_once(access: TokenCredentials, source: Source) -> None:
    assert first(access) == "token-1"
    secrets = [
        credential.secret for credential in access.credentials("m") if isinstance(credential, Credential)
    ]
    assert secrets == ["token-1", "token-2"]
    assert first(access) == "token-2"


def test_only_an_unauthorized_call_asks_for_another_token(access: TokenCredentials) -> None:
    credential = Credential({}, "token-1")
    assert access.refused(credential, 401, UpstreamMisconfigured("no"), "m")
    assert not access.refused(credential, 403, UpstreamMisconfigured("no"), "m")
    assert not access.refused(credential, 429, UpstreamRefused("no"), "m")


def test_a_late_caller_with_a_refused_token_gets_its_replacement(
    access: TokenCredentials, source: Source
) -> None:
    def refused(credentials: Iterator[object]) -> str:
        return next(credential for credential in credentials if isinstance(credential, Credential)).secret

    one, two = access.credentials("m"), access.credentials("m")
    assert (refused(one), refused(two)) == ("token-1", "token-1")
    assert (refused(one), refused(two)) == ("token-2", "token-2")
    assert source.fetched == 2


def test_a_failed_fetch_is_raised_to_callers_without_a_token(
    access: TokenCredentials, source: Source
) -> None:
    source.failure = UpstreamUnreachable("down")
    with pytest.raises(UpstreamUnreachable, match="down"):
        first(access)
    source.failure = None
    assert first(access) == "token-2"


def test_with_a_valid_token_a_failed_renewal_is_logged_and_retried_later(
    access: TokenCredentials, source: Source, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    first(access)
    clock.now += LIFETIME - AHEAD
    source.failure = UpstreamUnreachable("the token server is down")
    with caplog.at_level(logging.WARNING):
        assert first(access) == "token-1"
        until("the try", source, 2)
        assert eventually(access._renewal._running.done, every=0.005)
        assert [first(access) for _ in range(5)] == ["token-1"] * 5
    assert source.fetched == 2
    assert [record.reason for record in caplog.records] == ["the token server is down"]  # type: ignore[attr-defined]
    clock.now += BETWEEN_TRIES
    source.failure = None
    assert first(access) == "token-1"
    until("the second try", source, 3)


def test_an_unexpected_failure_in_the_background_is_logged(
    access: TokenCredentials, source: Source, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    first(access)
    clock.now += LIFETIME - AHEAD
    source.failure = ZeroDivisionError()
    assert first(access) == "token-1"
    until("the try", source, 2)
    assert eventually(access._renewal._running.done, every=0.005)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


def test_a_token_without_expiry_is_never_renewed(
    access: TokenCredentials, source: Source, clock: Clock
) -> None:
    source.lifetime = float("inf")
    first(access)
    clock.now += 10 * 365 * 86400
    assert first(access) == "token-1"
    assert source.fetched == 1


def test_googles_tokens_are_masked_in_the_log() -> None:
    record = logging.makeLogRecord({"msg": "ya29.a0Af_canary-canary-canary 1//0canary-canary-canary-c"})
    assert "canary" not in JsonFormatter().format(record)


def test_a_single_flight_can_be_reused() -> None:
    runs = iter(range(10))
    single_flight = SingleFlight(lambda: next(runs), 0.05)
    assert [single_flight.begin().result(30), single_flight.begin().result(30)] == [0, 1]
