"""`gemini-bridge doctor`: one line for everything that is known to go wrong on a machine, with its remedy."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence

from bridge.cli.colours import GREEN, RED, YELLOW, coloured
from bridge.cli.command import FAILED, Command
from bridge.doctor.finding import Check, Finding, Installation, Level
from bridge.settings.source import CLIENT_KEY

MARKS = {Level.GREEN: "ok  ", Level.YELLOW: "note", Level.RED: "FAIL"}
COLOURS = {Level.GREEN: GREEN, Level.YELLOW: YELLOW, Level.RED: RED}
WIDTH = 15  #: of the longest name

Found = tuple[Check, Finding]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="also try the address that clients use; asks for a short answer")
    parser.add_argument("--key", help=f"a client's key for that; better in {CLIENT_KEY}, out of sight")
    parser.add_argument("--json", action="store_true", help="for machines")


def _examine(arguments: argparse.Namespace) -> int:
    from bridge.doctor.checks import CHECKS  # slow to load; other commands need not wait for them
    from bridge.doctor.examination import examine

    installation = Installation.here(arguments.url, arguments.key or os.environ.get(CLIENT_KEY))
    found: list[Found] = []
    for each in examine(installation, CHECKS):
        found.append(each)
        if not arguments.json:
            print("\n".join(_lines(*each)), flush=True)
    if arguments.json:
        print(_as_json(found))
    return FAILED if any(finding.level is Level.RED for _, finding in found) else 0


DOCTOR = Command(_examine, "what is wrong on this machine, and its remedy", _arguments)


def _lines(check: Check, finding: Finding) -> Iterator[str]:
    mark = coloured(MARKS[finding.level], COLOURS[finding.level])
    yield f"{mark}  {check.name:<{WIDTH}}  {finding.says}"
    if finding.remedy:
        yield f"{'':<{WIDTH + 8}}→ {finding.remedy}"


def _as_json(found: Sequence[Found]) -> str:
    rows = [
        {"check": check.name, "level": finding.level, "says": finding.says, "remedy": finding.remedy}
        for check, finding in found
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False)
