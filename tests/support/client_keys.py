"""The clients' keys, as the administrator uses them: new secrets are returned."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridge.access.key_issuing import add_key, begin_anew, rotate_key
from bridge.state.key_store import KeyStore, Rules
from bridge.state.sqlite.key_store import SqliteKeyStore

KEYS_FILE = "keys.sqlite3"


class IssuedKeys:
    """Everything that is not defined here is the store's."""

    def __init__(self, store: KeyStore) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def add(self, name: str, rules: Rules) -> str:
        return add_key(self.store, name, rules)

    def begin_anew(self, name: str, rules: Rules) -> str:
        return begin_anew(self.store, name, rules)

    def rotate(self, name: str, grace: float) -> str:
        return rotate_key(self.store, name, grace)


class ClientKeys(IssuedKeys):
    """The keys of a state folder."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        super().__init__(SqliteKeyStore(folder / KEYS_FILE, now))
