"""Authentication: a client needs a valid key. On a loopback address it needs none if no key is defined."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge.access.addresses import client_address, is_local, networks
from bridge.access.key_cache import KeyCache, KeysUnavailable
from bridge.access.key_format import digest, well_formed
from bridge.access.key_policy import may_come_from, may_use, permit
from bridge.errors import TooBusy
from bridge.settings import Settings, SettingsError
from bridge.state.errors import DatabaseUnfit, StorageError
from bridge.state.key_store import Key, KeySecret
from bridge.state.store import PATIENT
from bridge.state.stores import check_database, open_stores

log = logging.getLogger(__name__)

#: The same text for every problem with a key: only the log says which problem it was.
REFUSED = (
    "There is no valid key in this request. Send the key that you were given for this bridge as "
    "'Authorization: Bearer …', 'x-api-key' or 'x-goog-api-key'; its administrator has one for you."
)
BEHIND_A_PROXY = (
    "This request came through a proxy, and the bridge has no key by which to know who sent it. Its "
    "administrator can define one with `gemini-bridge key add NAME`, or set access.open = true to serve "
    "everybody."
)
UNREADABLE = "The bridge cannot read its keys at the moment; its log says why"


@dataclass(frozen=True, slots=True)
class Identity:
    """The result of authentication. `problem` says, for the log, why a request is refused."""

    key: Key | None = None
    problem: str | None = None
    told: str = REFUSED  #: the text for the client if there is a problem
    owner: str = ""  #: of stored answers and thought signatures; no other owner can read them
    digest: bytes = b""  #: of the key's secret

    def permit(self, name: str, model: str) -> None:
        """Raises NotAllowed if the key permits neither the client's name of the model nor the model
        itself."""
        if self.key is not None:
            permit(self.key, name, model)

    def may_use(self, name: str, model: str) -> bool:
        return self.key is None or may_use(self.key, name, model)


class Authenticator:
    def __init__(self, settings: Settings, key_cache: KeyCache, now: Callable[[], float] = time.time) -> None:
        self._key_cache = key_cache
        self._now = now
        self._open = settings.access.open
        self._local = is_local(settings.server.host)
        self._trusted = networks(settings.server.trusted_proxies)
        self._warned = False

    def authenticate(
        self, shown: Sequence[str], peer: str, forwarded: str, proxied: bool = False
    ) -> Identity:
        """`shown` are the secrets in the request's headers; one valid secret is enough. `proxied`: the
        request came through a proxy, with or without the client's address."""
        try:
            identities = [self._identity(secret, peer, forwarded) for secret in shown]
            needed = not self._open and (not self._local or self._key_cache.any())
        except KeysUnavailable:
            if not self._open:
                raise TooBusy(UNREADABLE) from None
            identities, needed = [], False
        valid = next((identity for identity in identities if identity.problem is None), None)
        if valid is not None:
            return valid
        if not needed and (proxied or forwarded) and not self._open:
            self._warn_of_proxy()
            return Identity(problem="no_key_defined", told=BEHIND_A_PROXY)
        if not needed:
            return Identity(owner=digest(shown[0] if shown else "").hex())
        return self._refused(identities)

    def _refused(self, identities: Sequence[Identity]) -> Identity:
        unknown = any(identity.problem == "key_unknown" for identity in identities)
        if unknown and not self._key_cache.readable:
            raise TooBusy(UNREADABLE)  # the key may have been added since the keys were last read
        return identities[0] if identities else Identity(problem="key_missing")

    def _warn_of_proxy(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "requests from a proxy are refused: no key is defined; `gemini-bridge key add` makes one"
            )

    @property
    def asks_for_keys(self) -> bool:
        """Whether a client without a key is refused. Raises TooBusy if the keys cannot be read."""
        try:
            return not self._open and (not self._local or self._key_cache.any())
        except KeysUnavailable:
            raise TooBusy(UNREADABLE) from None

    def digests_of(self, key_id: str) -> list[bytes]:
        """The digests of a key's secrets. Raises TooBusy if the keys cannot be read."""
        try:
            return self._key_cache.digests_of(key_id)
        except KeysUnavailable:
            raise TooBusy(UNREADABLE) from None

    def _identity(self, secret: str, peer: str, forwarded: str) -> Identity:
        identity = self.by_digest(digest(secret), peer, forwarded)
        if identity.problem == "key_unknown" and not well_formed(secret):
            return Identity(problem="key_malformed")
        return identity

    def by_digest(self, shown: bytes, peer: str, forwarded: str) -> Identity:
        """The identity of the key with this secret, for a request from this address."""
        found = self._key_cache.find(shown)
        if found is None:
            return Identity(problem="key_unknown")
        problem = self._ended(found)
        client = client_address(peer, forwarded, self._trusted)
        if problem is None and not may_come_from(found.key, client):
            problem = "key_not_from_here"
        return Identity(found.key, problem, owner=found.key.storage_owner, digest=shown)

    def recheck(self, identity: Identity) -> str | None:
        """Why the key of a running request is no longer valid; None if it is valid, or if that is unknown."""
        if identity.key is None:
            return None
        try:
            found = self._key_cache.find(identity.digest)
        except KeysUnavailable:
            return None
        if found is None:
            return "key_unknown" if self._key_cache.readable else None
        return self._ended(found)

    def _ended(self, secret: KeySecret) -> str | None:
        now = self._now()
        if secret.key.revoked is not None:
            return "key_revoked"
        if secret.key.expired(now):
            return "key_expired"
        return "key_rotated" if secret.expired(now) else None


class Access(NamedTuple):
    """Which clients are served."""

    text: str  #: in words, for the log
    needs_key: bool = False


def describe_access(settings: Settings) -> Access:
    """Raises SettingsError if no client could be served."""
    if settings.access.open:
        return Access("open to everybody who can reach it: access.open is set, no key is asked for")
    try:
        check_database(settings)
        keys = len(open_stores(settings, PATIENT).keys.all())
    except DatabaseUnfit as error:
        raise SettingsError(str(error)) from None
    except StorageError as error:
        known = "only keys that this machine knew are accepted"
        served = known if settings.state.url else "every request is refused"
        return Access(f"the keys cannot be read ({error.reason}), and {served} until they can be read", True)
    if keys:
        return Access(f"a key is needed; {keys} defined", True)
    if is_local(settings.server.host):
        return Access(
            "open to everybody on this machine: no key is defined, `gemini-bridge key add NAME` makes one"
        )
    raise SettingsError(
        f"server.host is {settings.server.host}, which others can reach, and no key is defined; "
        "add one with `gemini-bridge key add NAME`, or set access.open = true to serve everybody"
    )
