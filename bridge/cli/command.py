"""The type of a subcommand: its help, its arguments, and a function that returns the exit code."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

PROGRAM = "gemini-bridge"
FAILED = 1
WRONG_USE = 2  #: the exit code of argparse for wrong arguments


def no_arguments(_parser: argparse.ArgumentParser) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Command:
    run: Callable[[argparse.Namespace], int]
    help: str
    arguments: Callable[[argparse.ArgumentParser], None] = no_arguments
