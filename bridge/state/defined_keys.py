"""Remembers, in a file in the state folder, that keys were defined.

Without it a lost or replaced key file, or another database, would look like a bridge without keys, and such a
bridge serves every client on its machine.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bridge.state.private_file import file_error, write_private

MARKER_FILE = "keys.defined"


class DefinedKeys:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: str | None = None

    def expected(self) -> str | None:
        """The id of a key that the store must hold; None if no key was ever defined."""
        try:
            with suppress(FileNotFoundError):  # the process itself remembers
                # An unreadable text becomes an id that no store holds.
                self._known = self._path.read_text("ascii", errors="replace").strip()
        except OSError as error:
            raise file_error(self._path, error) from error
        return self._known

    def remember(self, key_id: str) -> None:
        """The process remembers the id even if the file cannot be written."""
        self._known = key_id
        write_private(self._path, f"{key_id}\n".encode("ascii"))
