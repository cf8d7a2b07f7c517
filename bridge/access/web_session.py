"""Sessions of browsers: a signed cookie stands for a key, so that the key itself is sent once.

The signature depends on the digest of the key's secret, which only the key store knows. So every worker and
every machine accepts the cookie, nothing is stored, and a session ends when the key is revoked or replaced.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256

from bridge.access.authentication import Authenticator, Identity

LIFETIME = 8 * 3600
_VERSION = "1"


def issue(identity: Identity, now: float) -> str:
    """A session for the key of this identity."""
    assert identity.key is not None
    told = f"{_VERSION}.{identity.key.id}.{int(now) + LIFETIME}"
    return f"{told}.{_signature(identity.digest, told)}"


def form_token(session: str) -> str:
    """A text that only a page of this session can know. A form sends it back, so that no other site can send
    the form."""
    return sha256(f"form.{session}".encode("utf-8", "replace")).hexdigest()


class SessionReader:
    def __init__(self, authenticator: Authenticator, now: Callable[[], float]) -> None:
        self._authenticator = authenticator
        self._now = now

    def identity(self, session: str, peer: str, forwarded: str) -> Identity | None:
        """The identity of a session that is in force. Raises TooBusy if the keys cannot be read."""
        told, _, signature = session.rpartition(".")
        version, _, rest = told.partition(".")
        key_id, _, expires = rest.rpartition(".")
        if version != _VERSION or not expires.isdecimal() or int(expires[:12]) <= self._now():
            return None
        for digest in self._authenticator.digests_of(key_id):
            if hmac.compare_digest(_signature(digest, told).encode(), signature.encode("utf-8", "replace")):
                identity = self._authenticator.by_digest(digest, peer, forwarded)
                return identity if identity.problem is None else None
        return None


def _signature(digest: bytes, told: str) -> str:
    key = hmac.digest(digest, b"gemini-bridge web session", "sha256")
    return hmac.new(key, told.encode("utf-8", "replace"), sha256).hexdigest()
