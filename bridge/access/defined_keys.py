"""Remembers, in a file beside the key store, that keys were defined.

A store that is missing, empty or another's would otherwise look like a bridge without keys, and such a bridge
is open to everybody on its machine.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bridge.ids_and_clock import random_id
from bridge.state.database import create_private

MARKER_FILE = "keys.defined"


class DefinedKeys:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: str | None = None

    def expected(self) -> str | None:
        """The id of a key that the store must hold; None if no key was ever seen. Raises OSError."""
        with suppress(FileNotFoundError):  # the process itself remembers
            # An unreadable text is an id that no store holds.
            self._known = self._path.read_text("ascii", errors="replace").strip()
        return self._known

    def remember(self, key_id: str) -> None:
        """Raises OSError; the process remembers all the same."""
        self._known = key_id
        draft = self._path.with_suffix(f".{random_id('')}")  # several processes may write at the same time
        create_private(draft)
        with draft.open("w", encoding="ascii") as file:
            file.write(key_id + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
