"""The type of a subcommand: its help, arguments, examples, and a function that returns the exit code."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

PROGRAM = "gemini-bridge"
FAILED = 1
WRONG_USE = 2  #: the exit code of argparse for wrong arguments
INTERRUPTED = 130  #: what shells report for a program that Ctrl-C ended

#: What each exit code means; the help, the man page and docs/COMMANDS.md show it.
EXIT_CODES = {
    0: "success",
    FAILED: "the command ran, and failed or found a problem",
    WRONG_USE: "wrong arguments or invalid settings; nothing was done",
    INTERRUPTED: "Ctrl-C ended the command",
}


class Example(NamedTuple):
    """One call. It is shown in the help of the subcommand, and of the action, that its first words name."""

    words: str  #: without the name of the program
    purpose: str


def no_arguments(_parser: argparse.ArgumentParser) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Command:
    run: Callable[[argparse.Namespace], int]
    help: str
    arguments: Callable[[argparse.ArgumentParser], None] = no_arguments
    examples: tuple[Example, ...] = ()
    #: For shell completion: the values of a positional argument, by its name.
    completions: Mapping[str, Collection[str]] = field(default_factory=dict)
