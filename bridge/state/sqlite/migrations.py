"""Numbered steps that bring a file's tables up to date. `PRAGMA user_version` is the number of applied steps.

A released step never changes; a new version of the tables is a new step at the end. Version 0.1.0 wrote no
number: a file with its tables has step 1 behind it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from bridge.state.errors import SchemaTooNew

Step = Callable[[sqlite3.Connection], None]


@dataclass(frozen=True, slots=True)
class Schema:
    last_table: str  #: the table of step 1 that was added last: files without a number have it or need step 1
    steps: tuple[Step, ...]
    longest_wait: float = 0.0  #: seconds to wait while another process copies a table; 0: as for any lock


def statements(*texts: str) -> Step:
    """A step of SQL statements. `executescript` is no alternative: it commits the transaction."""

    def step(connection: sqlite3.Connection) -> None:
        for text in texts:
            connection.execute(text)

    return step


def added_column(table: str, name: str, declaration: str) -> Step:
    def step(connection: sqlite3.Connection) -> None:
        if not has_column(connection, table, name):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {declaration}")

    return step


def migrate(connection: sqlite3.Connection, schema: Schema, location: str) -> None:
    """Apply the steps that the file lacks, all or none. Of several processes one applies them."""
    latest = len(schema.steps)
    if version_of(connection, schema, location) == latest:
        return  # takes no lock, and works on a disk that is full or read-only
    if schema.longest_wait:
        _set_timeout(connection, schema.longest_wait)
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for step in schema.steps[version_of(connection, schema, location) :]:
            step(connection)
        connection.execute(f"PRAGMA user_version = {latest}")


def version_of(connection: sqlite3.Connection, schema: Schema, location: str) -> int:
    """The number of applied steps. Raises SchemaTooNew."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(schema.steps):
        raise SchemaTooNew(
            f"{location} was written by a newer version of the bridge: its tables have version {version}, "
            f"and this bridge knows versions up to {len(schema.steps)}. Install the newer version again, or "
            "move the file away to begin with an empty one"
        )
    return version or int(has_table(connection, schema.last_table))


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def has_column(connection: sqlite3.Connection, table: str, name: str) -> bool:
    return any(row[1] == name for row in connection.execute(f"PRAGMA table_info({table})"))


def _set_timeout(connection: sqlite3.Connection, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
