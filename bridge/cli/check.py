"""`gemini-bridge check`: would the bridge start with this? systemd asks before every start and reload."""

from __future__ import annotations

import argparse
import sys

from bridge.cli.command import PROGRAM, WRONG_USE, Command
from bridge.cli.table import lined_up


def _check(_arguments: argparse.Namespace) -> int:
    from bridge.doctor.configuration import inspect  # slow to load; other commands need not wait for it

    inspected = inspect()
    rows = [(each.name, "wrong" if each.error else "ok", each.says) for each in inspected]
    print("\n".join(lined_up(rows)), flush=True)
    errors = [each.error for each in inspected if each.error]
    for error in errors:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
    if errors:
        return WRONG_USE
    print("ok")
    return 0


CHECK = Command(_check, "whether the bridge would start with its configuration")
