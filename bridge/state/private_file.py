"""Files that only their owner can open, and the errors of files in the terms of the stores."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bridge.ids_and_clock import random_id
from bridge.state.errors import StorageUnavailable


def file_error(path: Path, error: OSError) -> StorageUnavailable:
    reason = error.strerror or type(error).__name__
    return StorageUnavailable(f"{path} cannot be used: {reason}", reason)


def write_private(path: Path, data: bytes) -> None:
    """Replace the file in one step, or create it. Raises StorageUnavailable."""
    draft = path.with_suffix(f".{random_id('')}")  # several processes may write at the same time
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_private(draft)
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise file_error(path, error) from error


def create_private(path: Path) -> None:
    """Create a file that only its owner can open. A file that root creates on the command line belongs to the
    owner of the folder, so that the service can open it."""
    if path.exists():
        return
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        return
    try:
        if os.geteuid() == 0:
            folder = path.parent.stat()
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
    finally:
        os.close(descriptor)
