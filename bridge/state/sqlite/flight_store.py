"""Flights in an SQLite file."""

from __future__ import annotations

import sqlite3
from typing import Any

from bridge.state.flight_store import (
    MOST_LISTED,
    FlightQuery,
    FlightRow,
    FlightRule,
    FlightStore,
    Look,
)
from bridge.state.sqlite.bounded_store import BoundedStore
from bridge.state.sqlite.migrations import Schema, statements

SCHEMA = Schema(
    "flight_look",
    (
        statements(
            """
            CREATE TABLE flight (
                id TEXT PRIMARY KEY, at REAL NOT NULL, request TEXT NOT NULL, key TEXT NOT NULL,
                client TEXT NOT NULL, conversation TEXT NOT NULL, protocol TEXT NOT NULL, model TEXT NOT NULL,
                status INTEGER NOT NULL, outcome TEXT NOT NULL, error TEXT NOT NULL, level TEXT NOT NULL,
                reason TEXT NOT NULL, node TEXT NOT NULL, bytes INTEGER NOT NULL, data BLOB NOT NULL
            )
            """,
            "CREATE INDEX flight_at ON flight (at)",
            "CREATE INDEX flight_request ON flight (request, at)",
            "CREATE INDEX flight_conversation ON flight (conversation, at)",
            """
            CREATE TABLE flight_rule (
                id TEXT PRIMARY KEY, made REAL NOT NULL, ends REAL NOT NULL, key TEXT, session TEXT,
                model TEXT, header INTEGER NOT NULL, level TEXT NOT NULL, author TEXT NOT NULL
            )
            """,
            """
            CREATE TABLE flight_look (
                at REAL NOT NULL, author TEXT NOT NULL, command TEXT NOT NULL, flight TEXT NOT NULL
            )
            """,
        ),
    ),
)

_COLUMNS = ", ".join(FlightRow._fields)
_RULE_COLUMNS = ", ".join(FlightRule._fields)
_KEEP = (
    f"INSERT INTO flight ({_COLUMNS}, data) VALUES ({', '.join(f':{name}' for name in FlightRow._fields)},"
    " :data)"
)
_LIST = f"""
SELECT {_COLUMNS} FROM flight
    WHERE at > :oldest AND (:key IS NULL OR key = :key) AND (:model IS NULL OR model = :model)
    AND (:conversation IS NULL OR conversation = :conversation) AND (NOT :failed OR outcome <> 'completed')
    ORDER BY at DESC, id LIMIT :limit
"""
_FIND = f"""
SELECT {_COLUMNS}, data FROM flight WHERE at > ?1 AND (id = ?2 OR request = ?2)
    ORDER BY id = ?2 DESC, at DESC LIMIT 1
"""
_BEFORE = f"""
SELECT {_COLUMNS}, data FROM flight
    WHERE at > ? AND conversation = ? AND key = ? AND level = ? AND at < ? ORDER BY at DESC LIMIT 1
"""
_ADD_RULE = f"INSERT INTO flight_rule ({_RULE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RULES = f"SELECT {_RULE_COLUMNS} FROM flight_rule WHERE ends > ? ORDER BY made, id"
_END_RULE = "UPDATE flight_rule SET ends = ?1 WHERE id = ?2 AND ends > ?1"
_FORGET_RULES = "DELETE FROM flight_rule WHERE ends <= ?"
_NOTE_LOOK = "INSERT INTO flight_look (at, author, command, flight) VALUES (?, ?, ?, ?)"
_LOOKS = "SELECT at, author, command, flight FROM flight_look ORDER BY at DESC, rowid DESC LIMIT ?"


class SqliteFlightStore(BoundedStore, FlightStore):
    schema = SCHEMA
    table = "flight"
    sizes = "SELECT id, at AS since, bytes AS size FROM flight"
    writes_between_tidying = 10

    def keep(self, row: FlightRow, data: bytes) -> None:
        def insert(database: sqlite3.Connection) -> None:
            database.execute(_KEEP, {**row._asdict(), "data": data})
            self._tidy_sometimes(database)

        self._database.transaction(insert)

    def newest(self, query: FlightQuery) -> list[FlightRow]:
        values = {
            "oldest": self._oldest(),
            "key": query.key,
            "model": query.model,
            "conversation": query.conversation,
            "failed": query.failed,
            "limit": min(query.limit, MOST_LISTED),
        }
        rows = self._database.read(lambda database: database.execute(_LIST, values).fetchall())
        return [FlightRow(*row) for row in rows]

    def find(self, name: str) -> tuple[FlightRow, bytes] | None:
        return _flight(self._row(_FIND, (self._oldest(), name)))

    def before(self, row: FlightRow) -> tuple[FlightRow, bytes] | None:
        values = (self._oldest(), row.conversation, row.key, row.level, row.at)
        return _flight(self._row(_BEFORE, values))

    def tidy(self) -> None:
        self._database.transaction(self._tidy)

    def _tidy(self, database: sqlite3.Connection) -> None:
        super()._tidy(database)
        database.execute(_FORGET_RULES, (self._now(),))

    def add_rule(self, rule: FlightRule) -> None:
        self._changed(_ADD_RULE, tuple(rule))

    def rules(self) -> list[FlightRule]:
        rows = self._database.read(lambda database: database.execute(_RULES, (self._now(),)).fetchall())
        return [FlightRule(*row)._replace(header=bool(row[6])) for row in rows]

    def end_rule(self, rule_id: str) -> bool:
        return self._changed(_END_RULE, (self._now(), rule_id))

    def note_look(self, look: Look) -> None:
        self._changed(_NOTE_LOOK, tuple(look))

    def looks(self, limit: int = MOST_LISTED) -> list[Look]:
        rows = self._database.read(lambda database: database.execute(_LOOKS, (limit,)).fetchall())
        return [Look(*row) for row in rows]


def _flight(found: tuple[Any, ...] | None) -> tuple[FlightRow, bytes] | None:
    return None if found is None else (FlightRow(*found[:-1]), found[-1])
