"""`gemini-bridge agent`: the agents of the configuration, and the records of their runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.cli.table import format_table
from bridge.settings import load
from bridge.state.agent_run_store import RunLines
from bridge.state.errors import StorageError
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores

MOST_LISTED = 50


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for name, words in _WORDS.items():
        action = actions.add_parser(name, help=words, description=words)
        if name in ("show", "resume"):
            action.add_argument("id", help="the id of the run, as `agent runs` shows it")
        else:
            action.add_argument("--json", action="store_true", help="print JSON")


_WORDS = {
    "list": "the agents of the configuration",
    "runs": f"the newest {MOST_LISTED} runs",
    "show": "the record of a run, as JSON lines",
    "resume": "go on with a run after its last finished round, and print the rest of its answer",
}


def _run(arguments: argparse.Namespace) -> int:
    try:
        return _ACTIONS[arguments.action](arguments)
    except StorageError as error:
        return _failed(str(error))


def _failed(message: str) -> int:
    print(f"{PROGRAM}: {message}", file=sys.stderr)
    return FAILED


def _list(arguments: argparse.Namespace) -> int:
    agents = load().agents
    rows = [(row.model_name, row.model, row.description) for row in agents.agents] if agents else []
    nothing = "There are no agents; docs/AGENTS.md shows how to write one into config/agents/."
    _print_rows(("agent", "model", "description"), rows, nothing, as_json=arguments.json)
    return 0


def _runs(arguments: argparse.Namespace) -> int:
    found = open_stores(load(), PATIENT).agent_runs.newest(MOST_LISTED)
    head = ("run", "agent", "began", "key", "ended", "tokens")
    _print_rows(head, list(map(_row, found)), "There is no record of a run.", as_json=arguments.json)
    return 0


def _print_rows(
    head: tuple[str, ...], rows: Sequence[tuple[str, ...]], nothing: str, *, as_json: bool
) -> None:
    if as_json:
        print(json.dumps([dict(zip(head, row, strict=True)) for row in rows], indent=2))
    else:
        print("\n".join(format_table([head, *rows])) if rows else nothing)


def _row(run: RunLines) -> tuple[str, ...]:
    first, last = json.loads(run.first), json.loads(run.last)
    began = f"{datetime.fromtimestamp(first['began'], UTC):%Y-%m-%d %H:%M:%S}"
    ended = str(last.get("end", f"after round {run.lines - 1}: running or interrupted"))
    return (
        run.run_id,
        str(first["agent"]),
        began,
        first.get("key") or "-",
        ended,
        str(last.get("tokens", "-")),
    )


def _show(arguments: argparse.Namespace) -> int:
    lines = open_stores(load(), PATIENT).agent_runs.lines(arguments.id)
    if not lines:
        return _failed(f"there is no run {arguments.id!r}; `agent runs` shows the newest")
    print("\n".join(line.decode() for line in lines))
    return 0


def _resume(arguments: argparse.Namespace) -> int:
    from bridge.agents.run_record import NotResumable  # slow to import, and other actions do not need it
    from bridge.errors import BridgeError
    from bridge.exchange.agent_resume import resume_run
    from bridge.observe.usage_writer import UsageObserver
    from bridge.web.app import make_services

    settings = load()
    stores = open_stores(settings, PATIENT)
    services = make_services(settings, stores)
    usage = UsageObserver(stores.usage, settings.prices_in_force)

    def write(text: str) -> None:
        print(text, end="", flush=True)

    try:
        resume_run(arguments.id, services, usage, write)
    except NotResumable as error:
        return _failed(f"the run {arguments.id!r} cannot be resumed: {error}")
    except BridgeError as error:
        return _failed(error.message)
    print()
    return 0


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "runs": _runs,
    "show": _show,
    "resume": _resume,
}

AGENT = Command(
    _run,
    "agents and their runs: list, runs, show, resume",
    _arguments,
    (
        Example("agent list", "the agents that clients can use as models"),
        Example("agent runs", "the newest runs, with their ids"),
        Example("agent show reviewer-1b2c3d4e", "everything that a run did, a JSON line for each round"),
        Example("agent resume reviewer-1b2c3d4e", "go on with a run that a stop of the bridge interrupted"),
    ),
)
