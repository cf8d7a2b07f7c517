"""Who is let in: whoever shows a good key; where none is defined, everybody on a loopback address."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bridge.access.addresses import client_address, is_local, networks
from bridge.access.key_cache import KeyCache, KeysUnavailable
from bridge.access.key_format import digest, well_formed
from bridge.access.key_store import KEYS_FILE, Held, KeysLost, KeyStore
from bridge.access.keys import Key
from bridge.errors import TooBusy
from bridge.settings import Settings, SettingsError

log = logging.getLogger(__name__)

#: The same for everybody who is not let in: what was wrong with a key is for the log alone.
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
    """How a request stands at the door. `problem` says, for the log, why it is not let in."""

    key: Key | None = None
    problem: str | None = None
    told: str = REFUSED  #: what the client is told of the problem
    owner: str = ""  #: stored answers and thought signatures are the owner's alone
    digest: bytes = b""  #: of the key's secret

    def permit(self, name: str, model: str) -> None:
        """Raises NotAllowed if the visitor may use neither the name it gave nor the model that it means."""
        if self.key is not None:
            self.key.permit(name, model)

    def may_use(self, name: str, model: str) -> bool:
        return self.key is None or self.key.may_use(name, model)


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
        """`shown` are the secrets that the request carries, wherever they stood; one good one is enough.
        `proxied`: a proxy sent the request on, whether or not it says for whom."""
        try:
            visits = [self._judged(secret, peer, forwarded) for secret in shown]
            needed = not self._open and (not self._local or self._key_cache.any())
        except KeysUnavailable:
            if not self._open:
                raise TooBusy(UNREADABLE) from None
            visits, needed = [], False
        good = next((visit for visit in visits if visit.problem is None), None)
        if good is not None:
            return good
        if not needed and (proxied or forwarded) and not self._open:
            self._warn_of_proxy()
            return Identity(problem="no_key_defined", told=BEHIND_A_PROXY)
        if not needed:
            return Identity(owner=digest(shown[0] if shown else "").hex())
        return self._refused(visits)

    def _refused(self, visits: Sequence[Identity]) -> Identity:
        if not self._key_cache.readable and any(visit.problem == "key_unknown" for visit in visits):
            raise TooBusy(UNREADABLE)  # it may have been added since they were last read
        return visits[0] if visits else Identity(problem="key_missing")

    def _warn_of_proxy(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "requests from a proxy are refused: no key is defined; `gemini-bridge key add` makes one"
            )

    def _judged(self, secret: str, peer: str, forwarded: str) -> Identity:
        shown = digest(secret)
        held = self._key_cache.find(shown)
        if held is None:
            return Identity(problem="key_unknown" if well_formed(secret) else "key_malformed")
        problem = self._ended(held)
        if problem is None and not held.key.may_come_from(client_address(peer, forwarded, self._trusted)):
            problem = "key_not_from_here"
        return Identity(held.key, problem, owner=f"key:{held.key.id}", digest=shown)

    def recheck(self, visit: Identity) -> str | None:
        """Why the key that let the visitor in is no longer good; None if it is, or if that is not known."""
        if visit.key is None:
            return None
        try:
            held = self._key_cache.find(visit.digest)
        except KeysUnavailable:
            return None
        if held is None:
            return "key_unknown" if self._key_cache.readable else None
        return self._ended(held)

    def _ended(self, held: Held) -> str | None:
        now = self._now()
        if held.key.revoked is not None:
            return "key_revoked"
        if held.key.expired(now):
            return "key_expired"
        return "key_rotated" if held.expired(now) else None


def describe_access(settings: Settings) -> str:
    """Who will be let in, in words for the start; a SettingsError if nobody could be."""
    if settings.access.open:
        return "open to everybody who can reach it: access.open is set, no key is asked for"
    try:
        keys = len(KeyStore(settings.state.dir / KEYS_FILE).all())
    except (sqlite3.Error, OSError) as error:
        return f"its keys cannot be read ({_reason(error)}), and nobody is let in until they can"
    if keys:
        return f"a key is needed; {keys} defined"
    if is_local(settings.server.host):
        return "open to everybody on this machine: no key is defined, `gemini-bridge key add NAME` makes one"
    raise SettingsError(
        f"server.host is {settings.server.host}, which others can reach, and no key is defined; "
        "add one with `gemini-bridge key add NAME`, or set access.open = true to serve everybody"
    )


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, KeysLost) else type(error).__name__
