"""A bearer token that opens the door for an hour or so, and is renewed before that is over.

While it is good, a new one is fetched behind the backs of those who use it. Only where there is none, or it
was refused, do they wait: all of them for one fetch, and each with the turn in every tick.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field

from bridge.errors import BridgeError
from bridge.upstream.auth.credentials import Credential, CredentialSource
from bridge.upstream.auth.single_flight import SingleFlight
from bridge.upstream.base import Tick

log = logging.getLogger(__name__)

#: Seconds before its end at which a token is renewed. Sooner, Google's machines would give out the same one.
AHEAD = 225.0
#: Seconds between two tries to renew a token that is still good.
BETWEEN_TRIES = 10.0
UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class AccessToken:
    value: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)  #: all that a call needs to be let in
    expires: float = math.inf  #: seconds since the epoch


class TokenCredentials(CredentialSource):
    def __init__(
        self, fetch: Callable[[], AccessToken], tick: float, clock: Callable[[], float] = time.time
    ) -> None:
        """`fetch` may take its time; it raises `UpstreamError`."""
        self._fetch = fetch
        self._clock = clock
        self._renewal = SingleFlight(self._renewed, tick)
        self._token: AccessToken | None = None
        self._next_try = 0.0

    def credentials(self, model: str, conversation: str = "") -> Iterator[Credential | Tick]:
        token = yield from self._good_one()
        yield Credential(token.headers, token.value)
        if self._token is token:  # else somebody has noticed before us that it is no longer taken
            self._token = None
        token = yield from self._good_one()
        yield Credential(token.headers, token.value)

    def refused(self, credential: Credential, status: int, refusal: BridgeError, model: str) -> bool:
        return status == UNAUTHORIZED

    def _good_one(self) -> Generator[Tick, None, AccessToken]:
        token = self._token
        if token is None or self._left(token) <= 0:
            return (yield from self._renewal.outcome())
        if self._left(token) <= AHEAD and self._clock() >= self._next_try:
            self._renewal.begin()
        return token

    def _left(self, token: AccessToken) -> float:
        return token.expires - self._clock()

    def _renewed(self) -> AccessToken:
        token = self._token
        if token is not None and self._left(token) > AHEAD:
            return token  # a run that ended just before this one was begun
        try:
            self._token = token = self._fetch()
        except BridgeError as error:
            log.warning("no new token from Google", extra={"reason": error.message})
            raise
        except Exception:
            log.exception("no new token from Google")  # nobody may be waiting to hear of it
            raise
        finally:
            self._next_try = self._clock() + BETWEEN_TRIES
        return token
