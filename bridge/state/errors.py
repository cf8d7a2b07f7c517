"""The errors of all stores.

They are not part of `bridge/errors.py`, because a client never receives them: each caller decides what a
failure of its store means for the request.
"""

from __future__ import annotations


class StorageError(Exception):
    """A store cannot be read or written. `reason` leaves out the location and fits into a log line."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class StorageUnavailable(StorageError):
    """The same call may succeed later: the file is locked, the disk is full, a file cannot be opened."""


class StorageBusy(StorageUnavailable):
    """Only this statement failed, because others were in its way. It changed nothing and may be repeated."""


class DatabaseUnfit(StorageError):
    """The database answers, and cannot be used until the administrator changes what the message names."""


class SchemaTooNew(StorageError):
    """A newer version of the bridge changed the tables, and this version does not know how."""
