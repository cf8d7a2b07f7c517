"""`gemini-bridge state`: the tables in which the bridge keeps its state."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping

from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.cli.progress_bar import clear_progress, show_progress
from bridge.cli.table import format_table
from bridge.settings import SettingsError, load
from bridge.state.copying import BACKENDS, copy_state
from bridge.state.errors import StorageError
from bridge.state.stores import upgrade

_UPGRADE = "bring the tables up to date; run it before you start a new version of the bridge"
_COPY = (
    "copy the whole state; a repeated copy adds what is missing. sqlite is the state folder, and postgres is "
    "the database of BRIDGE_STATE_URL"
)


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    upgrade = actions.add_parser("upgrade", help=_UPGRADE, description=_UPGRADE)
    copy = actions.add_parser("copy", help=_COPY, description=_COPY)
    copy.add_argument("--from", dest="source", required=True, choices=BACKENDS, help="where the state is")
    copy.add_argument("--to", dest="target", required=True, choices=BACKENDS, help="where to copy it")
    for action in (upgrade, copy):
        action.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: argparse.Namespace) -> int:
    try:
        _ACTIONS[arguments.action](arguments)
    except StorageError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILED
    return 0


def _upgrade(arguments: argparse.Namespace) -> None:
    done = upgrade(load())
    if arguments.json:
        print(json.dumps({"done": done}, indent=2))
    else:
        print("\n".join(done) if done else "The tables are up to date.")


def _copy(arguments: argparse.Namespace) -> None:
    if arguments.source == arguments.target:
        raise SettingsError("--from and --to must differ: one is sqlite, the other is postgres")
    try:
        copied = copy_state(load(), arguments.source, arguments.target, show_progress)
    finally:
        clear_progress()
    if arguments.json:
        print(json.dumps([each._asdict() for each in copied], indent=2))
        return
    head = ("rows of", arguments.source, f"{arguments.target} before", f"{arguments.target} after")
    rows = [(each.name, f"{each.source:,}", f"{each.before:,}", f"{each.after:,}") for each in copied]
    print("\n".join(format_table([head, *rows], right_from=1)))


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], None]] = {"upgrade": _upgrade, "copy": _copy}

STATE = Command(
    _run,
    "the tables of the state: upgrade, copy",
    _arguments,
    (
        Example("state upgrade", "bring the tables up to date before a new version starts"),
        Example(
            "state copy --from sqlite --to postgres", "move to PostgreSQL, whose address is BRIDGE_STATE_URL"
        ),
    ),
)
