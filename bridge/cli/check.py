"""`gemini-bridge check`: whether the bridge would start. systemd runs it before every start and reload."""

from __future__ import annotations

import argparse
import sys

from bridge.cli.command import PROGRAM, WRONG_USE, Command
from bridge.cli.table import format_table


def _check(_arguments: argparse.Namespace) -> int:
    from bridge.doctor.configuration import inspect  # slow to import, and other commands do not need it

    inspected = inspect()
    rows = [(each.name, "wrong" if each.error else "ok", each.summary) for each in inspected]
    print("\n".join(format_table(rows)), flush=True)
    errors = [each.error for each in inspected if each.error]
    for error in errors:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
    if errors:
        return WRONG_USE
    print("ok")
    return 0


CHECK = Command(_check, "check whether the bridge would start with its configuration")
