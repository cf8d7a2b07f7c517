"""The command `gemini-bridge`. A new subcommand needs a module in this package and a line in COMMANDS."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Mapping, Sequence

from bridge import __version__
from bridge.cli.agent import AGENT
from bridge.cli.backup import BACKUP, RESTORE
from bridge.cli.cache import CACHE
from bridge.cli.check import CHECK
from bridge.cli.command import PROGRAM, WRONG_USE, Command
from bridge.cli.connect import CONNECT
from bridge.cli.context import CONTEXT
from bridge.cli.doctor import DOCTOR
from bridge.cli.experiment import EXPERIMENT
from bridge.cli.explain import EXPLAIN
from bridge.cli.flight import FLIGHT
from bridge.cli.import_config import IMPORT
from bridge.cli.key import KEY
from bridge.cli.serve import SERVE
from bridge.cli.settings import SETTINGS
from bridge.cli.state import STATE
from bridge.cli.status import STATUS
from bridge.cli.upstream import UPSTREAM
from bridge.cli.usage import USAGE
from bridge.settings import SettingsError

COMMANDS: Mapping[str, Command] = {
    "serve": SERVE,
    "settings": SETTINGS,
    "connect": CONNECT,
    "key": KEY,
    "usage": USAGE,
    "status": STATUS,
    "upstream": UPSTREAM,
    "experiment": EXPERIMENT,
    "state": STATE,
    "backup": BACKUP,
    "restore": RESTORE,
    "cache": CACHE,
    "flight": FLIGHT,
    "explain": EXPLAIN,
    "agent": AGENT,
    "context": CONTEXT,
    "import": IMPORT,
    "check": CHECK,
    "doctor": DOCTOR,
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without support for a character must not cause an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = COMMANDS[arguments.command].run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the output, such as `head`, has exited
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - Python flushes stdout again at exit
        return 0
    except SettingsError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return WRONG_USE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(PROGRAM, description="The OpenAI and Anthropic APIs on Google Gemini.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, command in COMMANDS.items():
        command.arguments(commands.add_parser(name, help=command.help, description=command.help))
    return parser
