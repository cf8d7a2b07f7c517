"""Notices of changed keys, which make every worker look at the version at once instead of after a second.

No worker depends on a notice: a PgBouncer in transaction mode delivers none, and some get lost with their
connection. Each process has one connection of its own for them, outside of the pool.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable

import psycopg

from bridge.state.errors import StorageError
from bridge.state.postgres.connection import connect_as

log = logging.getLogger(__name__)

CHANNEL = "gemini_bridge_keys"
#: Seconds until the thread notices that nobody needs it any more.
BETWEEN_CHECKS = 1.0
#: Seconds within which the server returns the notice by which the thread tests the connection.
ROUND_TRIP = 2.0
PAUSE_AFTER_FAILURE = 2.0

Wake = weakref.WeakMethod[Callable[[], None]]


def listen(url: str, wake: Callable[[], None]) -> None:
    """Call the method after each notice, for as long as its object exists."""
    known = weakref.WeakMethod(wake)
    threading.Thread(target=_listen, args=(url, known), name="key notices", daemon=True).start()


def _listen(url: str, wake: Wake) -> None:
    while wake() is not None:
        try:
            if not _wake_on_notices(url, wake):
                log.info("no notices of changed keys come through; keys are read every second")
                return
        except (StorageError, psycopg.Error):
            time.sleep(PAUSE_AFTER_FAILURE)  # the pool reports what is wrong


def _wake_on_notices(url: str, wake: Wake) -> bool:
    """False if this connection delivers no notices."""
    connection, _ = connect_as(psycopg.Connection, url)  # the bridge's own kind does not wait for notices
    with connection:
        connection.execute(f"LISTEN {CHANNEL}")
        connection.execute(f"NOTIFY {CHANNEL}")
        if not list(connection.notifies(timeout=ROUND_TRIP, stop_after=1)):
            return False
        _call(wake)  # for the changes while there was no connection
        while wake() is not None:
            for _notice in connection.notifies(timeout=BETWEEN_CHECKS, stop_after=1):
                _call(wake)
    return True


def _call(wake: Wake) -> None:
    if (found := wake()) is not None:
        found()
