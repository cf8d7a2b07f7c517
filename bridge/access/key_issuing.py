"""Issues secrets to keys. A secret is returned once; the store receives its digest and its last letters."""

from __future__ import annotations

from bridge.access.key_format import digest, hint, new_secret
from bridge.state.key_store import KeyStore, NewSecret, Rules


def add_key(store: KeyStore, name: str, rules: Rules) -> str:
    """The secret of a new key. Raises NameTaken."""
    secret = new_secret()
    store.add(name, rules, _stored(secret))
    return secret


def begin_anew(store: KeyStore, name: str, rules: Rules) -> str:
    """The secret of the first key of a new, empty store. All earlier keys end."""
    secret = new_secret()
    store.begin_anew(name, rules, _stored(secret))
    return secret


def rotate_key(store: KeyStore, name: str, grace: float) -> str:
    """A new secret for a key; the earlier ones expire after `grace` seconds. Raises NoSuchKey, KeyRevoked."""
    secret = new_secret()
    store.rotate(name, _stored(secret), grace)
    return secret


def _stored(secret: str) -> NewSecret:
    return NewSecret(digest(secret), hint(secret))
