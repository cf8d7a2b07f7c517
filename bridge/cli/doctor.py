"""`gemini-bridge doctor`: runs all checks on this machine and prints their findings with remedies."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Iterator, Sequence

from bridge.cli.bridge_address import checked_address
from bridge.cli.colours import GREEN, RED, YELLOW, coloured
from bridge.cli.command import FAILED, Command, Example
from bridge.cli.progress_bar import clear_progress, show_progress
from bridge.cli.text_width import hanging
from bridge.doctor.finding import Check, Finding, Installation, Level
from bridge.settings.source import CLIENT_KEY

MARKS = {Level.GREEN: "ok  ", Level.YELLOW: "note", Level.RED: "FAIL"}
COLOURS = {Level.GREEN: GREEN, Level.YELLOW: YELLOW, Level.RED: RED}
WIDTH = 15  #: of the longest check name

Found = tuple[Check, Finding]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="also check the address that clients use, with a short model request")
    parser.add_argument(
        "--key", help=f"a client key for --url; the variable {CLIENT_KEY} is safer, because it is not shown"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _examine(arguments: argparse.Namespace) -> int:
    from bridge.doctor.checks import CHECKS  # slow to import, and other commands do not need it
    from bridge.doctor.examination import examine

    logging.getLogger("bridge").addHandler(logging.NullHandler())  # the findings say it all
    url = arguments.url and checked_address(arguments.url.rstrip("/").removesuffix("/v1"))
    installation = Installation.local(url, arguments.key or os.environ.get(CLIENT_KEY))
    found: list[Found] = []
    show_progress("checks", 0, len(CHECKS))
    for each in examine(installation, CHECKS):
        found.append(each)
        clear_progress()
        if not arguments.json and each[1].level is not Level.SKIPPED:
            print("\n".join(_lines(*each)), flush=True)
        if len(found) < len(CHECKS):
            show_progress("checks", len(found), len(CHECKS))
    if arguments.json:
        print(_as_json(found))
    else:
        print("".join(f"{line}\n" for line in _skipped_lines(found)), end="")
    return FAILED if any(finding.level is Level.RED for _, finding in found) else 0


DOCTOR = Command(
    _examine,
    "find problems on this machine and suggest remedies",
    _arguments,
    (
        Example("doctor", "run all checks; the exit code is 1 if one fails"),
        Example("doctor --url https://ai.example.com", "also check the address that clients use"),
        Example("doctor --json", "the findings for programs"),
    ),
)


def _lines(check: Check, finding: Finding) -> Iterator[str]:
    mark = coloured(MARKS[finding.level], COLOURS[finding.level])
    plain = f"{MARKS[finding.level]}  {check.name:<{WIDTH}}  {finding.says}"
    yield hanging(plain, WIDTH + 8).replace(MARKS[finding.level], mark, 1)
    if finding.remedy:
        yield hanging(f"{'':<{WIDTH + 8}}→ {finding.remedy}", WIDTH + 10)


def _skipped_lines(found: Sequence[Found]) -> Iterator[str]:
    """One line for each cause, with all checks that it makes pointless."""
    skipped = [(check.name, finding.says) for check, finding in found if finding.level is Level.SKIPPED]
    for reason in dict.fromkeys(says for _, says in skipped):
        yield f"skip  {', '.join(name for name, says in skipped if says == reason)}"
        yield f"{'':<{WIDTH + 8}}→ {reason}"


def _as_json(found: Sequence[Found]) -> str:
    rows = [
        {"check": check.name, "level": finding.level, "says": finding.says, "remedy": finding.remedy}
        for check, finding in found
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False)
