"""Credentials for calls to the upstream: an API key, one of several, or an access token."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bridge.errors import LONGEST_RETRY_AFTER, BridgeError, UpstreamMisconfigured, UpstreamRateLimited
from bridge.upstream.auth.api_keys import ApiKeyPool
from bridge.upstream.base import Tick
from bridge.upstream.cooldowns import Cooldowns
from bridge.upstream.transport.exception_map import GEMINI


@dataclass(frozen=True, slots=True)
class Credential:
    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(repr=False)  #: masked in every answer


class CredentialSource(ABC):
    @abstractmethod
    def credentials(self, model: str, conversation: str = "") -> Iterator[Credential | Tick]:
        """The credentials to try, in order; an empty batch at every tick while a credential is fetched."""

    @abstractmethod
    def refused(self, credential: Credential, status: int, refusal: BridgeError, model: str) -> bool:
        """Note that the upstream refused the credential; returns whether the next one may be accepted."""


class ApiKeyCredentials(CredentialSource):
    def __init__(
        self,
        keys: Iterable[str],
        cooldown: float,
        cooldowns: Cooldowns,
        *,
        header: str = "x-goog-api-key",
        prefix: str = "",
        server: str = GEMINI,
    ) -> None:
        """`prefix` comes before the key in the header."""
        self._pool = ApiKeyPool(map(str.strip, keys), cooldown, cooldowns)
        self._header = header
        self._prefix = prefix
        self._server = server

    def credentials(self, model: str, conversation: str = "") -> Iterator[Credential]:
        if wait := self._pool.upstream_wait(model):
            raise UpstreamRateLimited(
                f"The quota of {self._server} for this model is used up for now.", retry_after=wait
            )
        keys = self._pool.available(model, conversation)
        if not keys:
            raise UpstreamMisconfigured("The bridge has no Gemini key: set GEMINI_API_KEY.")
        for key in keys:
            yield Credential(
                {self._header: f"{self._prefix}{key}"}, key
            )  # never `?key=`: logs contain addresses

    def refused(self, credential: Credential, status: int, refusal: BridgeError, model: str) -> bool:
        if isinstance(refusal, UpstreamRateLimited):
            delay = refusal.retry_after
            self._pool.rest(
                credential.secret, None if delay is None else min(delay, LONGEST_RETRY_AFTER), model
            )
            return True
        if isinstance(refusal, UpstreamMisconfigured):
            self._pool.rest(credential.secret)
            return True
        return False


class WithoutCredentials(CredentialSource):
    """For a server that needs no key, such as a model server in the own network."""

    def credentials(self, model: str, conversation: str = "") -> Iterator[Credential]:
        yield Credential({}, "")

    def refused(self, credential: Credential, status: int, refusal: BridgeError, model: str) -> bool:
        return False
