"""What opens the upstream's door to a call: an API key, one of several, or a token."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bridge.errors import LONGEST_RETRY_AFTER, BridgeError, UpstreamMisconfigured, UpstreamRateLimited
from bridge.upstream.auth.api_keys import ApiKeyPool
from bridge.upstream.base import Tick
from bridge.upstream.cooldowns import Cooldowns


@dataclass(frozen=True, slots=True)
class Credential:
    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(repr=False)  #: no answer may show it


class CredentialSource(ABC):
    @abstractmethod
    def credentials(self, model: str, conversation: str = "") -> Iterator[Credential | Tick]:
        """What to send a call with: the next one where the one before was refused. A tick as long as there is
        nothing yet."""

    @abstractmethod
    def refused(self, credential: Credential, status: int, refusal: BridgeError, model: str) -> bool:
        """Take note of it, and say whether the next permit might do better."""


class ApiKeyCredentials(CredentialSource):
    def __init__(self, keys: Iterable[str], cooldown: float, cooldowns: Cooldowns) -> None:
        self._ring = ApiKeyPool(map(str.strip, keys), cooldown, cooldowns)

    def credentials(self, model: str, conversation: str = "") -> Iterator[Credential]:
        if wait := self._ring.told_to_wait(model):
            raise UpstreamRateLimited("Gemini's quota for this model is used up for now.", retry_after=wait)
        keys = self._ring.available(model, conversation)
        if not keys:
            raise UpstreamMisconfigured("The bridge has no Gemini key.")
        for key in keys:
            yield Credential({"x-goog-api-key": key}, key)  # never `?key=`: addresses end up in logs

    def refused(self, credential: Credential, status: int, refusal: BridgeError, model: str) -> bool:
        if isinstance(refusal, UpstreamRateLimited):
            told = refusal.retry_after
            self._ring.rest(
                credential.secret, None if told is None else min(told, LONGEST_RETRY_AFTER), model
            )
            return True
        if isinstance(refusal, UpstreamMisconfigured):
            self._ring.rest(credential.secret)
            return True
        return False
