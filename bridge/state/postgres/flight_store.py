"""Flights in PostgreSQL."""

from __future__ import annotations

from typing import Any

from bridge.state.flight_store import (
    MOST_LISTED,
    FlightQuery,
    FlightRow,
    FlightRule,
    FlightStore,
    Look,
)
from bridge.state.postgres.bounded_store import NOW, BoundedStore
from bridge.state.store import PATIENT

_COLUMNS = ", ".join(FlightRow._fields)
_RULE_COLUMNS = ", ".join(FlightRule._fields)
_VALID = f"at > {NOW} - %(lifetime)s"
_KEEP = f"""
INSERT INTO gemini_bridge.flight ({_COLUMNS}, data)
    VALUES ({", ".join(f"%({name})s" for name in FlightRow._fields)}, %(data)s)
"""
_LIST = f"""
SELECT {_COLUMNS} FROM gemini_bridge.flight
    WHERE {_VALID} AND (%(key)s::text IS NULL OR key = %(key)s)
    AND (%(model)s::text IS NULL OR model = %(model)s)
    AND (%(conversation)s::text IS NULL OR conversation = %(conversation)s)
    AND (NOT %(failed)s OR outcome <> 'completed')
    ORDER BY at DESC, id LIMIT %(limit)s
"""
_FIND = f"""
SELECT {_COLUMNS}, data FROM gemini_bridge.flight WHERE {_VALID} AND (id = %(name)s OR request = %(name)s)
    ORDER BY id = %(name)s DESC, at DESC LIMIT 1
"""
_BEFORE = f"""
SELECT {_COLUMNS}, data FROM gemini_bridge.flight
    WHERE {_VALID} AND conversation = %(conversation)s AND key = %(key)s AND level = %(level)s
    AND at < %(at)s ORDER BY at DESC LIMIT 1
"""
_ADD_RULE = f"""
INSERT INTO gemini_bridge.flight_rule ({_RULE_COLUMNS})
    VALUES ({", ".join(f"%({name})s" for name in FlightRule._fields)})
"""
_RULES = f"SELECT {_RULE_COLUMNS} FROM gemini_bridge.flight_rule WHERE ends > {NOW} ORDER BY made, id"
_END_RULE = f"UPDATE gemini_bridge.flight_rule SET ends = {NOW} WHERE id = %(id)s AND ends > {NOW}"
_FORGET_RULES = f"DELETE FROM gemini_bridge.flight_rule WHERE ends <= {NOW}"
_NOTE_LOOK = "INSERT INTO gemini_bridge.flight_look (at, author, command, flight) VALUES (%s, %s, %s, %s)"
_LOOKS = (
    "SELECT at, author, command, flight FROM gemini_bridge.flight_look ORDER BY at DESC, number DESC LIMIT %s"
)


class PostgresFlightStore(BoundedStore, FlightStore):
    name = "flights"
    tables = ("flight", "flight_rule", "flight_look")
    sizes = "SELECT id, at AS since, bytes AS size FROM gemini_bridge.flight"
    writes_between_tidying = 10

    def keep(self, row: FlightRow, data: bytes) -> None:
        self._database.run(_KEEP, {**row._asdict(), "data": data})
        self._tidy_sometimes()

    def newest(self, query: FlightQuery) -> list[FlightRow]:
        values = self._values(
            key=query.key,
            model=query.model,
            conversation=query.conversation,
            failed=query.failed,
            limit=min(query.limit, MOST_LISTED),
        )
        return [FlightRow(*row) for row in self._database.run(_LIST, values)]

    def find(self, name: str) -> tuple[FlightRow, bytes] | None:
        return _flight(self._row(_FIND, self._values(name=name)))

    def before(self, row: FlightRow) -> tuple[FlightRow, bytes] | None:
        return _flight(self._row(_BEFORE, self._values(**row._asdict())))

    def tidy(self) -> None:
        self._tidy()
        self._database.run(_FORGET_RULES, self._values(), patience=PATIENT)

    def add_rule(self, rule: FlightRule) -> None:
        self._database.run(_ADD_RULE, rule._asdict())

    def rules(self) -> list[FlightRule]:
        return [FlightRule(*row) for row in self._database.run(_RULES, self._values())]

    def end_rule(self, rule_id: str) -> bool:
        return self._database.changed(_END_RULE, self._values(id=rule_id)) > 0

    def note_look(self, look: Look) -> None:
        self._database.run(_NOTE_LOOK, tuple(look))

    def looks(self, limit: int = MOST_LISTED) -> list[Look]:
        return [Look(*row) for row in self._database.run(_LOOKS, (limit,))]


def _flight(found: tuple[Any, ...] | None) -> tuple[FlightRow, bytes] | None:
    return None if found is None else (FlightRow(*found[:-1]), found[-1])
