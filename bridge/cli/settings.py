"""`gemini-bridge settings`: shows the settings in force and the source of each value."""

from __future__ import annotations

import argparse
import json

from bridge.cli.command import Command, Example
from bridge.cli.table import format_table
from bridge.settings import Settings, ShownSetting, load


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _print_settings(arguments: argparse.Namespace) -> int:
    settings = load()
    print(_as_json(settings) if arguments.json else _as_table(settings))
    return 0


SETTINGS = Command(
    _print_settings,
    "show the settings in force and the source of each value",
    _arguments,
    (
        Example("settings", "every setting with its value, and the file or variable that sets it"),
        Example("settings --json", "the same for programs"),
    ),
)


def _as_json(settings: Settings) -> str:
    shown = {each.key: {"value": each.value, "origin": each.origin} for each in settings.shown()}
    return json.dumps({"transport_in_force": settings.transport_in_force, "settings": shown}, indent=2)


def _as_table(settings: Settings) -> str:
    rows = [("SETTING", "VALUE", "FROM")]
    rows += [(each.key, _value(each), each.origin) for each in settings.shown()]
    return "\n".join([*format_table(rows), "", f"Upstream in force: {settings.transport_in_force}"])


def _value(shown: ShownSetting) -> str:
    match shown.value:
        case bool(value):
            return str(value).lower()
        case list(texts):
            return ", ".join(texts) or "none"
        case value:
            return str(value)
