"""Flights as text for a terminal. Users choose most of the texts, so control characters are replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from bridge.cli.table import format_table
from bridge.state.flight_store import FlightRow

if TYPE_CHECKING:
    from bridge.recorder.differences import Difference

HEADINGS = ("AT", "FLIGHT", "KEY", "MODEL", "STATUS", "OUTCOME", "ERROR", "LEVEL", "REASON", "BYTES")
LONGEST_CELL = 40
LONGEST_VALUE = 200
#: Stages that are shown as lines of one value each; the others are shown as whole JSON.
_FACTS = ("summary", "timeline", "notes", "error", "usage", "prefix")
_MANY = ("chunk", "event")


def printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def flight_table(rows: Iterable[FlightRow]) -> list[str]:
    cells = [[printable(cell)[:LONGEST_CELL] or "-" for cell in _cells(row)] for row in rows]
    return format_table([HEADINGS, *cells])


def _cells(row: FlightRow) -> tuple[str, ...]:
    at = datetime.fromtimestamp(row.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    named = (row.key, row.model, str(row.status), row.outcome, row.error, row.level, row.reason)
    return at, row.id, *named, f"{row.bytes:,}"


def flight_lines(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    stage = ""
    for line in lines:
        if line["stage"] != stage:
            stage = line["stage"]
            yield f"{stage}:"
        values = {name: value for name, value in line.items() if name != "stage"}
        if stage in _FACTS:
            yield from (f"  {name}: {_json(value)}" for name, value in values.items() if value is not None)
        elif stage in _MANY:
            yield f"  {_json(values)}"
        else:
            yield from (f"  {each}" for each in _indented(values).split("\n"))


def replay_lines(found: Sequence[Difference]) -> Iterator[str]:
    if not found:
        yield "The bridge would send the same request again."
    for each in found:
        yield f"{printable(each.path)}"
        yield f"  kept: {_json(each.before)[:LONGEST_VALUE]}"
        yield f"  now:  {_json(each.now)[:LONGEST_VALUE]}"


def _json(value: Any) -> str:
    return printable(orjson.dumps(value).decode())


def _indented(value: Any) -> str:
    lines = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().split("\n")
    return "\n".join(map(printable, lines))
