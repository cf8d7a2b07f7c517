"""`gemini-bridge check`: whether the bridge would start. systemd runs it before every start and reload."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from bridge.cli.command import PROGRAM, WRONG_USE, Command, Example
from bridge.cli.table import format_table

if TYPE_CHECKING:
    from bridge.doctor.configuration import Inspected


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _check(arguments: argparse.Namespace) -> int:
    from bridge.doctor.configuration import inspect  # slow to import, and other commands do not need it

    inspected = inspect()
    if arguments.json:
        print(json.dumps([_as_json(each) for each in inspected], indent=2))
        return WRONG_USE if any(each.error for each in inspected) else 0
    rows = [(each.name, "wrong" if each.error else "ok", each.summary) for each in inspected]
    print("\n".join(format_table(rows)), flush=True)
    errors = [each.error for each in inspected if each.error]
    for error in errors:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
    if errors:
        return WRONG_USE
    print("ok")
    return 0


def _as_json(inspected: Inspected) -> dict[str, str | bool | None]:
    return {
        "name": inspected.name,
        "ok": not inspected.error,
        "summary": inspected.summary,
        "error": inspected.error or None,
    }


CHECK = Command(
    _check,
    "check whether the bridge would start with its configuration",
    _arguments,
    (
        Example("check", "check the configuration; nothing is started"),
        Example("check --json", "the same for programs: one object for each file and each part"),
    ),
)
