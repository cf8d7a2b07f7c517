"""The command `gemini-bridge`.

A command is one function that takes the parsed arguments and returns the exit code, and one line in COMMANDS.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bridge import __version__
from bridge.settings import Settings, SettingsError, ShownSetting, load

PROGRAM = "gemini-bridge"
WRONG_USE = 2  #: argparse exits with the same


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a sign must not stop the answer.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return COMMANDS[arguments.command].run(arguments)
    except SettingsError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return WRONG_USE


def print_settings(arguments: argparse.Namespace) -> int:
    settings = load()
    print(_as_json(settings) if arguments.json else _as_table(settings))
    return 0


@dataclass(frozen=True, slots=True)
class Command:
    run: Callable[[argparse.Namespace], int]
    help: str
    switches: Mapping[str, str] = field(default_factory=dict)  #: `--name` → help


COMMANDS: Mapping[str, Command] = {
    "settings": Command(
        print_settings, "the settings in force and where each came from", {"--json": "for machines"}
    ),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(PROGRAM, description="The OpenAI and Anthropic APIs on Google Gemini.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, command in COMMANDS.items():
        added = commands.add_parser(name, help=command.help, description=command.help)
        for switch, explanation in command.switches.items():
            added.add_argument(switch, action="store_true", help=explanation)
    return parser


# --- settings ----------------------------------------------------------------------------------------


def _as_json(settings: Settings) -> str:
    shown = {each.key: {"value": each.value, "origin": each.origin} for each in settings.shown()}
    return json.dumps({"transport_in_force": settings.transport_in_force, "settings": shown}, indent=2)


def _as_table(settings: Settings) -> str:
    rows = [("SETTING", "VALUE", "FROM")]
    rows += [(each.key, _words(each), each.origin) for each in settings.shown()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines += ["", f"Upstream in force: {settings.transport_in_force}"]
    return "\n".join(map(str.rstrip, lines))


def _words(shown: ShownSetting) -> str:
    match shown.value:
        case bool(value):
            return str(value).lower()
        case list(texts):
            return ", ".join(texts) or "none"
        case value:
            return str(value)
