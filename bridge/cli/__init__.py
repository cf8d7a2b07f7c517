"""The command `gemini-bridge`. A new subcommand needs a module in this package and its name in COMMANDS."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import import_module

from bridge import __version__
from bridge.cli.command import INTERRUPTED, PROGRAM, WRONG_USE, Command
from bridge.cli.parser import Parser, describe
from bridge.settings.value import SettingsError

#: The modules of commands that are not named like their command.
OTHER_MODULES = {"restore": "backup", "import": "import_config"}


class CommandModules(Mapping[str, Command]):
    """The subcommands by name. The subcommand `key` is KEY in the module `key`; a hyphen in the name is an
    underscore there. A module is imported when it is needed, because importing all of them takes longer than
    most commands run."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Command:
        if name not in self._names:
            raise KeyError(name)
        word = name.replace("-", "_")
        module = import_module(f"{__name__}.{OTHER_MODULES.get(name, word)}")
        command: Command = getattr(module, word.upper())
        return command

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


COMMANDS: Mapping[str, Command] = CommandModules(
    "serve",
    "settings",
    "connect",
    "key",
    "usage",
    "status",
    "upstream",
    "experiment",
    "state",
    "backup",
    "restore",
    "cache",
    "flight",
    "explain",
    "agent",
    "context",
    "import",
    "check",
    "doctor",
    "completion",
)

#: The help of the program shows the first example of each.
FIRST_STEPS = ("serve", "connect", "key", "doctor")


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    called = words[:1] if words and words[0] in COMMANDS else COMMANDS
    arguments = make_parser(called).parse_args(words)
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
    except KeyboardInterrupt:
        print(f"\n{PROGRAM}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except SettingsError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return WRONG_USE


def make_parser(names: Collection[str] = COMMANDS) -> Parser:
    """The parser of these subcommands."""
    parser = Parser(PROGRAM, description="The OpenAI and Anthropic APIs on Google Gemini.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name in names:
        command = COMMANDS[name]
        child = commands.add_parser(name, help=command.help, description=command.help)
        command.arguments(child)
        describe(child, name, command.examples)
    parser.examples = tuple(COMMANDS[name].examples[0] for name in FIRST_STEPS if name in names)
    return parser
