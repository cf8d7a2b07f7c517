"""A lock on the state folder: every running bridge shares it, and a restore needs it alone.

The kernel releases the lock when the last process of the bridge ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.state.errors import StorageError
from bridge.state.private_file import create_private, file_error

FILE = "in_use.lock"

#: The descriptors of this process by folder. Workers inherit them, and with them the lock.
_shared: dict[Path, int] = {}


def share_folder(folder: Path) -> None:
    """Hold the lock until this process and its children end. Raises StorageError while a restore runs.
    A folder that cannot be written has no lock: the bridge serves without it."""
    if folder in _shared:
        return
    try:
        descriptor = _opened(folder)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StorageError(f"a backup is being restored into {folder}: start the bridge after that") from None
    except OSError:  # a network file system may have no locks
        os.close(descriptor)
        return
    _shared[folder] = descriptor


@contextmanager
def folder_alone(folder: Path) -> Iterator[None]:
    """Raises StorageError if a bridge runs on the folder."""
    try:
        descriptor = _opened(folder)
    except OSError as error:
        raise file_error(folder, error) from error
    try:
        _take_alone(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _take_alone(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StorageError(
            f"a bridge is running on {folder}: stop it first, such as with systemctl stop gemini-bridge"
        ) from None


def _opened(folder: Path) -> int:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    create_private(folder / FILE)
    return os.open(folder / FILE, os.O_RDWR)
