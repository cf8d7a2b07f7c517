"""`gemini-bridge flight`: recordings of single requests, and the rules that say what to record."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.cli.flight_text import flight_lines, flight_table, printable, replay_lines
from bridge.cli.key_values import parse_duration
from bridge.cli.table import format_table
from bridge.ids_and_clock import random_id
from bridge.settings import Settings, load
from bridge.settings.sections import RECORDING_LEVELS
from bridge.settings.value import OFF, suggestion
from bridge.state.errors import StorageError
from bridge.state.flight_store import LONGEST_RULE, FlightQuery, FlightRow, FlightRule, FlightStore, Look
from bridge.state.store import PATIENT
from bridge.state.stores import Stores, open_stores


class _Failed(Exception):
    """The command cannot do what it is told; the message says why and what to do."""


class _Call(NamedTuple):
    settings: Settings
    stores: Stores
    arguments: argparse.Namespace

    @property
    def store(self) -> FlightStore:
        return self.stores.flights

    def look(self, flight: str = "") -> None:
        """Note who looks before anything is shown."""
        words = ("flight", self.arguments.action, getattr(self.arguments, "stage", None))
        self.store.note_look(Look(time.time(), _user(), " ".join(filter(None, words)), flight))

    def print_json(self, shown: object) -> None:
        print(json.dumps(shown, indent=2, ensure_ascii=False))


# --- flights -----------------------------------------------------------------------------------------


def _list(call: _Call) -> None:
    given = call.arguments
    call.look()
    query = FlightQuery(given.key, given.model, given.conversation, given.failed, given.limit)
    rows = call.store.newest(query)
    if given.json:
        call.print_json([_row_as_json(row) for row in rows])
    elif rows:
        print("\n".join(flight_table(rows)))
    else:
        print(f"There is no such flight. recorder.mode is {call.settings.recorder.mode!r}.")


def _row_as_json(row: FlightRow) -> dict[str, Any]:
    return row._asdict() | {"at": _iso(row.at)}


def _found(call: _Call) -> tuple[FlightRow, list[dict[str, Any]]]:
    """The flight that the command names."""
    from bridge.recorder.flight import decode

    found = call.store.find(call.arguments.id)
    if found is None:
        name = printable(call.arguments.id)
        raise _Failed(f"there is no flight {name!r}, or it has expired; `{PROGRAM} flight list` lists all")
    call.look(found[0].id)
    return found[0], decode(found[1])


def _show(call: _Call) -> None:
    row, lines = _found(call)
    stage = call.arguments.stage
    chosen = [line for line in lines if stage in (None, line["stage"])]
    if call.arguments.json:
        call.print_json({"flight": row.id, "lines": chosen})
    elif chosen:
        print("\n".join(flight_lines(chosen)))
    else:
        print(f"The flight {row.id} has nothing of the stage {stage}.")


def _export(call: _Call) -> None:
    from bridge.recorder.export import NotExportable, export

    row, lines = _found(call)
    folder = Path(call.arguments.folder)
    try:
        missing = export(lines, folder)
    except NotExportable as error:
        raise _Failed(str(error)) from None
    except FileExistsError:
        raise _Failed(f"{folder} exists; name a new folder") from None
    except OSError as error:
        raise _Failed(f"{folder} cannot be written: {error.strerror}") from None
    if call.arguments.json:
        call.print_json({"flight": row.id, "folder": str(folder), "batches_left_out": missing})
        return
    print(f"Wrote {folder}. To run it: copy it to tests/transcripts, then `make accept` and `make test`.")
    if missing:
        print(f"The flight does not contain {missing} batches of chunks in the middle of the stream.")


def _replay(call: _Call) -> int:
    from bridge.cli.flight_replay import Refused, replayed
    from bridge.recorder.export import NotExportable

    row, lines = _found(call)
    try:
        found = replayed(row, lines, call.settings)
    except (NotExportable, Refused) as error:
        raise _Failed(str(error)) from None
    if call.arguments.json:
        call.print_json({"flight": row.id, "differences": [each._asdict() for each in found]})
    else:
        print("\n".join(replay_lines(found)))
    return FAILED if found else 0


def _looks(call: _Call) -> None:
    looks = call.store.looks()
    if call.arguments.json:
        call.print_json([look._asdict() | {"at": _iso(look.at)} for look in looks])
        return
    rows = [("AT", "USER", "COMMAND", "FLIGHT")]
    rows += [(_iso(look.at), look.author, look.command, look.flight) for look in looks]
    print("\n".join(format_table(rows)))


# --- rules -------------------------------------------------------------------------------------------


def _record(call: _Call) -> None:
    given, now = call.arguments, time.time()
    if call.settings.recorder.mode == OFF:
        raise _Failed(
            "recorder.mode is 'off', so nothing can be recorded: set it to 'rules' in config/local.toml and "
            "reload the service"
        )
    if not (given.key or given.session or given.model or given.header):
        raise _Failed("say what to record: --key, --session, --model, --header, or several of them")
    names = [key.name for key in call.stores.keys.all()]
    if given.key is not None and given.key not in names:
        near = suggestion(given.key, names) if names else "there are no keys"
        raise _Failed(f"there is no key {given.key!r}; {near}")
    ends = now + min(given.duration, LONGEST_RULE)
    asked = (given.key, given.session, given.model, given.header, given.level)
    rule = FlightRule(random_id("rule_"), now, ends, *asked, _user())
    call.store.add_rule(rule)
    if given.json:
        call.print_json(_rule_as_json(rule))
        return
    print(f"{rule.id}: {_conditions(rule)} is recorded at the level {rule.level} until {_iso(ends)}.")
    print("All workers follow the rule within two seconds, and tell the client with x-bridge-recorded.")
    print(f"To end it: {PROGRAM} flight end {rule.id}")


def _rules(call: _Call) -> None:
    rules = call.store.rules()
    if call.arguments.json:
        call.print_json([_rule_as_json(rule) for rule in rules])
        return
    if not rules:
        print(f"There are no rules; recorder.mode is {call.settings.recorder.mode!r}.")
        return
    rows = [("RULE", "RECORDS", "LEVEL", "UNTIL", "BY")]
    rows += [(rule.id, _conditions(rule), rule.level, _iso(rule.ends), rule.author) for rule in rules]
    print("\n".join(format_table(rows)))


def _end(call: _Call) -> None:
    if not call.store.end_rule(call.arguments.id):
        raise _Failed(f"there is no rule {call.arguments.id!r}; `{PROGRAM} flight rules` lists the rules")
    if call.arguments.json:
        call.print_json({"ended": call.arguments.id})
    else:
        print(f"The rule {call.arguments.id} has ended. All workers follow within two seconds.")


def _rule_as_json(rule: FlightRule) -> dict[str, Any]:
    return rule._asdict() | {"made": _iso(rule.made), "ends": _iso(rule.ends)}


def _conditions(rule: FlightRule) -> str:
    named = {"key": rule.key, "session": rule.session, "model": rule.model}
    words = [f"{name} {printable(value)}" for name, value in named.items() if value is not None]
    return ", ".join([*words, *(["header x-bridge-record: 1"] if rule.header else [])])


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _user() -> str:
    """The user who runs the command; with sudo, the user before."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


# --- the command -------------------------------------------------------------------------------------


class _Action(NamedTuple):
    run: Callable[[_Call], int | None]
    help: str
    takes: tuple[str, ...] = ()  #: its positional arguments


_POSITIONAL_HELP = {"id": "the id, as a list shows it", "folder": "the folder to write"}

_ACTIONS: Mapping[str, _Action] = {
    "list": _Action(_list, "list flights, the newest first"),
    "show": _Action(_show, "show one flight, by its id or by the id of its request", ("id",)),
    "export": _Action(_export, "write a folder that the tests run as a transcript", ("id", "folder")),
    "replay": _Action(
        _replay, "convert the request anew, without sending it, and show what differs", ("id",)
    ),
    "record": _Action(_record, "record the requests that have all of the given properties"),
    "rules": _Action(_rules, "list the rules that are in force"),
    "end": _Action(_end, "end a rule", ("id",)),
    "looks": _Action(_looks, "list who looked at which flight"),
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for word, action in _ACTIONS.items():
        subparser = actions.add_parser(word, help=action.help, description=action.help)
        for name in action.takes:
            subparser.add_argument(name, metavar=name.upper(), help=_POSITIONAL_HELP[name])
        subparser.add_argument("--json", action="store_true", help="print JSON")
        if word in _OPTIONS:
            _OPTIONS[word](subparser)


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", metavar="NAME", help="only flights of this key")
    parser.add_argument("--model", help="only flights that asked for this model")
    parser.add_argument("--conversation", metavar="ID", help="only flights of this conversation")
    parser.add_argument("--failed", action="store_true", help="only flights whose answer was not completed")
    parser.add_argument("--limit", type=_limit, default=50, metavar="N", help="how many; default: 50")


def _show_options(parser: argparse.ArgumentParser) -> None:
    stages = "summary, timeline, client-request, gemini-request, notes, chunk, event, client-answer, error, "
    parser.add_argument("--stage", help=f"only one of {stages}usage, prefix")


def _record_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", metavar="NAME", help="requests with this key")
    parser.add_argument("--session", metavar="ID", help="requests of this session, as the client names it")
    parser.add_argument("--model", help="requests for this model, as the client names it")
    parser.add_argument("--header", action="store_true", help="requests with the header x-bridge-record: 1")
    parser.add_argument(
        "--for",
        dest="duration",
        type=_duration,
        default="1h",
        metavar="TIME",
        help="such as 30m or 2h, at most 24h; default: 1h",
    )
    parser.add_argument(
        "--level",
        choices=RECORDING_LEVELS,
        default="shape",
        help="how much is kept; default: shape",
    )


_OPTIONS: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "list": _list_options,
    "show": _show_options,
    "record": _record_options,
}


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError("must be a number from 1 to 1000")
    return int(text)


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if not 0 < seconds <= LONGEST_RULE:
        raise argparse.ArgumentTypeError("must be at least 1m and at most 24h")
    return seconds


def _run(arguments: argparse.Namespace) -> int:
    settings = load()
    try:
        call = _Call(settings, open_stores(settings, PATIENT), arguments)
        call.store.tidy()
        return _ACTIONS[arguments.action].run(call) or 0
    except (_Failed, StorageError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILED


FLIGHT = Command(
    _run,
    "recordings of single requests: list, show, record, replay",
    _arguments,
    (
        Example("flight list --failed", "the newest recordings whose answer was not completed"),
        Example("flight show req_0123456789abcdef", "one recording, by the id of its request"),
        Example("flight export req_0123456789abcdef folder", "write it as a transcript for the tests"),
        Example("flight replay req_0123456789abcdef", "what this version would send instead"),
        Example("flight record --key alice --for 30m", "record the requests of a key for half an hour"),
        Example("flight rules", "what is being recorded"),
        Example("flight end 1", "end a rule, by its id"),
        Example("flight looks", "who looked at which recording"),
    ),
)
