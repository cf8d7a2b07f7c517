"""`gemini-bridge state`: the tables in which the bridge keeps its state."""

from __future__ import annotations

import argparse
import sys

from bridge.cli.command import FAILED, PROGRAM, Command
from bridge.settings import load
from bridge.state.errors import StorageError
from bridge.state.stores import upgrade


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    words = "bring the tables up to date; run it before you start a new version of the bridge"
    actions.add_parser("upgrade", help=words, description=words)


def _run(_arguments: argparse.Namespace) -> int:
    try:
        done = upgrade(load())
    except StorageError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILED
    print("\n".join(done) if done else "The tables are up to date.")
    return 0


STATE = Command(_run, "the tables of the state: upgrade", _arguments)
