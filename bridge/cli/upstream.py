"""`gemini-bridge upstream`: lists the upstreams with their health, and tests one of them."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from bridge.cli.command import FAILED, Command, Example
from bridge.cli.progress_bar import clear_progress, show_progress
from bridge.cli.table import format_table
from bridge.settings import SettingsError, load
from bridge.settings.value import suggestion

if TYPE_CHECKING:
    from bridge.doctor.upstream_health import Health

HEADER = ("name", "kind", "serves", "weight", "state", "last error")


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    listing = actions.add_parser("list", help="show all upstreams with their health")
    testing = actions.add_parser("test", help="test one upstream; the exit code is 1 if it does not answer")
    testing.add_argument("name", help="the name of the upstream")
    for action in (listing, testing):
        action.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: argparse.Namespace) -> int:
    from bridge.doctor.upstream_health import examine_upstreams  # slow to import

    settings = load()
    rows = {row.name: row for row in settings.all_upstreams}
    if arguments.action == "test":
        if arguments.name not in rows:
            raise SettingsError(
                f"no upstream is named {arguments.name!r}; {suggestion(arguments.name, rows)}"
            )
        rows = {arguments.name: rows[arguments.name]}
    try:
        found = examine_upstreams(
            settings, rows.values(), lambda done: show_progress("upstreams", done, len(rows))
        )
    finally:
        clear_progress()
    if arguments.json:
        print(json.dumps([_as_json(each) for each in found], indent=2))
    elif arguments.action == "list":
        print("\n".join(format_table([HEADER, *map(_cells, found)])))
    else:
        print("\n".join(_details(found[0])))
    return FAILED if arguments.action == "test" and found[0].error else 0


UPSTREAM = Command(
    _run,
    "show and test the upstreams",
    _arguments,
    (
        Example("upstream list", "all upstreams with their models and their last error"),
        Example("upstream test default", "test one upstream, and list its models"),
    ),
)


def _cells(health: Health) -> tuple[str, ...]:
    row = health.row
    serves = ", ".join(row.models) or "–"
    return row.name, row.kind, serves, str(row.weight), health.state, health.last_error or "–"


def _details(health: Health) -> list[str]:
    rows = [
        ("name", health.row.name),
        ("kind", health.row.kind),
        ("address", health.address or "–"),
        ("serves", ", ".join(health.row.models) or "–"),
        ("state", health.state),
        ("last error", health.last_error or "–"),
    ]
    return [*format_table(rows), *(f"  {model}" for model in health.models)]


def _as_json(health: Health) -> dict[str, Any]:
    return {
        "name": health.row.name,
        "kind": health.row.kind,
        "address": health.address,
        "serves": list(health.row.models),
        "weight": health.row.weight,
        "healthy": not health.error,
        "error": health.error or None,
        "resting": list(health.resting),
        "last_error": health.failure and health.failure._asdict(),
        "models": list(health.models),
    }
