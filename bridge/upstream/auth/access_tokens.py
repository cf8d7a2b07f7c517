"""Bearer tokens, which are valid for about an hour and are renewed before they expire.

A valid token is renewed in the background. Calls wait only if there is no valid token or the upstream refused
it: they all wait for the same fetch, and each gets control back at every tick.
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

#: Seconds before expiry at which a token is renewed. Earlier, Google Cloud machines return the same token.
AHEAD = 225.0
#: Seconds between two attempts to renew a token that is still valid.
BETWEEN_TRIES = 10.0
UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class AccessToken:
    value: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)  #: the headers that authenticate a call
    expires: float = math.inf  #: seconds since the epoch


class TokenCredentials(CredentialSource):
    def __init__(
        self, fetch: Callable[[], AccessToken], tick: float, clock: Callable[[], float] = time.time
    ) -> None:
        """`fetch` may block; it raises `UpstreamError`."""
        self._fetch = fetch
        self._clock = clock
        self._renewal = SingleFlight(self._renew, tick)
        self._token: AccessToken | None = None
        self._next_try = 0.0

    def credentials(self, model: str, conversation: str = "") -> Iterator[Credential | Tick]:
        token = yield from self._valid_token()
        yield Credential(token.headers, token.value)
        if self._token is token:  # else another call has already replaced the refused token
            self._token = None
        token = yield from self._valid_token()
        yield Credential(token.headers, token.value)

    def refused(self, credential: Credential, status: int, refusal: BridgeError, model: str) -> bool:
        return status == UNAUTHORIZED

    def _valid_token(self) -> Generator[Tick, None, AccessToken]:
        token = self._token
        if token is None or self._left(token) <= 0:
            return (yield from self._renewal.outcome())
        if self._left(token) <= AHEAD and self._clock() >= self._next_try:
            self._renewal.begin()
        return token

    def _left(self, token: AccessToken) -> float:
        return token.expires - self._clock()

    def _renew(self) -> AccessToken:
        token = self._token
        if token is not None and self._left(token) > AHEAD:
            return token  # another renewal ended just before this one began
        try:
            self._token = token = self._fetch()
        except BridgeError as error:
            log.warning("token renewal failed", extra={"reason": error.message})
            raise
        except Exception:
            log.exception("token renewal failed")  # in the background no caller sees the error
            raise
        finally:
            self._next_try = self._clock() + BETWEEN_TRIES
        return token
