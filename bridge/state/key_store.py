"""The clients' keys: their values, and the interface of the store that keeps them.

The store keeps digests of secrets only. `bridge/access/` creates the secrets and decides what a key permits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bridge.settings.limits import Limits
from bridge.settings.value import AUTO
from bridge.state.errors import StorageError
from bridge.state.store import Store

#: An expired secret is kept for this long, so that the log can name its key.
REMEMBERED = 30 * 86400


class NameTaken(Exception):
    """A key with this name exists, in force or revoked."""


class NoSuchKey(Exception):
    """No key has this name."""


class KeyRevoked(Exception):
    """The key is revoked and cannot be changed any more."""


class KeysLost(StorageError):
    """Keys were defined, and the store does not hold them: it is missing, empty, or replaced by another."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of one key. The administrator chooses them and may change them."""

    owner: str = ""
    models: tuple[str, ...] = ()  #: patterns; empty: every model
    networks: tuple[str, ...] = ()  #: address ranges; empty: every address
    expires: float | None = None
    limits: Limits = field(default_factory=Limits)
    dialect: str = AUTO  #: of the Responses protocol; auto: detected from the client's requests
    cache: str = ""  #: "on": the request cache is used; "off": it never is; "": the request decides
    strict: bool = False  #: refuse each request of which a part would be dropped


@dataclass(frozen=True, slots=True)
class Key:
    """One key, without its secrets."""

    id: str  #: stays the same when the secret changes
    name: str
    rules: Rules
    created: float
    revoked: float | None = None

    @property
    def storage_owner(self) -> str:
        """The owner of what the bridge stores for this key: answers, signatures, cached answers."""
        return f"key:{self.id}"

    def expired(self, now: float) -> bool:
        return self.rules.expires is not None and self.rules.expires <= now


@dataclass(frozen=True, slots=True)
class KeySecret:
    """What the store knows about one secret of a key: its last letters, and when it expires."""

    key: Key
    hint: str
    created: float
    expires: float | None

    def expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now


class NewSecret(NamedTuple):
    """The parts of a new secret that may be stored."""

    digest: bytes
    hint: str


class KeyStore(Store):
    """A key may have several secrets: the current one, and replaced ones that have not expired. A revoked key
    keeps its name, so that the name never means another key."""

    # --- for the workers -----------------------------------------------------------------------------

    @abstractmethod
    def version(self) -> Hashable:
        """A value that changes with every change of the keys. Raises KeysLost."""

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call the method `wake` soon after a change, if the store learns of changes. No caller may depend on
        it: a call may be missing, and the version shows every change."""

    @abstractmethod
    def secrets_by_digest(self) -> Mapping[bytes, KeySecret]:
        """All secrets of all keys, revoked and expired ones too. Raises KeysLost."""

    def last_known(self) -> Mapping[bytes, KeySecret]:
        """The secrets that a worker of this machine read last, if the store keeps a copy. Does not raise."""
        return {}

    # --- for the administrator -----------------------------------------------------------------------

    @abstractmethod
    def all(self) -> list[Key]:
        """All keys in the order of their creation. Raises KeysLost."""

    @abstractmethod
    def secrets_of(self, key: Key) -> list[KeySecret]:
        """The secrets of one key that have not expired, the newest first."""

    @abstractmethod
    def add(self, name: str, rules: Rules, secret: NewSecret) -> None:
        """Raises NameTaken, KeysLost."""

    @abstractmethod
    def begin_anew(self, name: str, rules: Rules, secret: NewSecret) -> None:
        """Add the key to a new, empty store. The data of the old store is kept apart and no longer used."""

    @abstractmethod
    def rotate(self, name: str, secret: NewSecret, grace: float) -> None:
        """Add a secret. The earlier ones expire after `grace` seconds at the latest. Raises NoSuchKey,
        KeyRevoked."""

    @abstractmethod
    def change(self, name: str, changed: Callable[[Rules], Rules]) -> Key:
        """Raises NoSuchKey, KeyRevoked."""

    @abstractmethod
    def revoke(self, name: str) -> Key:
        """Raises NoSuchKey."""
