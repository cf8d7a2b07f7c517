"""Measures a database server: the time to it, its clock and its connections."""

from __future__ import annotations

import time
from statistics import median

import psycopg

from bridge.settings.database_url import secrets_in
from bridge.state.database_health import DatabaseHealth
from bridge.state.postgres.connection import Connection, connect, describe
from bridge.state.postgres.errors import storage_error
from bridge.state.store import PATIENT

ROUND_TRIPS = 5
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"
#: A user with few rights sees the sessions of its own database, and the number of all.
_CONNECTIONS = """
SELECT (SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'gemini-bridge' AND datname = current_database()),
    (SELECT sum(numbackends)::int FROM pg_stat_database),
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
"""


def measure(url: str) -> DatabaseHealth:
    location = describe(url)
    try:
        connection, _ = connect(url)
        with connection:
            connection.patience = PATIENT
            trips = [_clock(connection) for _ in range(ROUND_TRIPS)]
            (ours, used, most) = connection.execute(_CONNECTIONS).fetchone() or (0, 0, 0)
            server = connection.info.server_version // 10_000
    except psycopg.Error as error:
        raise storage_error(location, error, secrets_in(url)) from error
    _, ahead = min(trips)  # the shortest trip says most about the clock
    return DatabaseHealth(location, server, median(seconds for seconds, _ in trips), ahead, ours, used, most)


def _clock(connection: Connection) -> tuple[float, float]:
    """The seconds of a round trip, and how far the server's clock is ahead."""
    before, wall = time.perf_counter(), time.time()
    row = connection.execute(_CLOCK).fetchone()
    seconds = time.perf_counter() - before
    assert row is not None
    return seconds, row[0] - (wall + seconds / 2)
