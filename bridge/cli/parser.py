"""The argument parser: suggestions for misspelt words, and examples in every help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NoReturn

from bridge.cli.command import EXIT_CODES, PROGRAM, WRONG_USE, Example
from bridge.settings.value import suggestion


class Parser(argparse.ArgumentParser):
    """argparse makes the parsers of the subcommands with the same class."""

    examples: tuple[Example, ...] = ()

    def format_help(self) -> str:
        parts = [super().format_help()]
        if self.examples:
            parts.append("\nexamples:\n" + "".join(map(_shown, self.examples)))
        if self.prog == PROGRAM:
            codes = "".join(f"  {code:<4} {meaning}\n" for code, meaning in EXIT_CODES.items())
            parts.append(f"\nexit codes:\n{codes}")
        return "".join(parts)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Reports unknown arguments here, where the options of the subcommand are known."""
        given = sys.argv[1:] if args is None else list(args)
        if not given and actions_of(self):
            self.print_help(sys.stderr)
            self.exit(WRONG_USE)
        parsed, unknown = super().parse_known_args(given, namespace)
        if unknown:
            self.error(f"unknown argument {unknown[0]}{self._similar_option(unknown[0])}")
        return parsed, []

    def _similar_option(self, wrong: str) -> str:
        known = [action.option_strings[-1] for action in arguments_of(self) if action.option_strings]
        if wrong[:1] != "-":
            return ""
        if known == ["--help"]:
            return "; this command takes no options"
        return f"; {suggestion(wrong.partition('=')[0], known)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known: Collection[str] = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, f"unknown: {value!r}; {suggestion(str(value), known)}")

    def error(self, message: str) -> NoReturn:
        """The usage is left out: that of a command with many options would hide the message."""
        example = "".join(f"Example: {PROGRAM} {words}  # {why}\n" for words, why in self.examples[:1])
        self.exit(WRONG_USE, f"{self.prog}: {message}\n{example}Help: {self.prog} --help\n")


def _shown(example: Example) -> str:
    return f"  {PROGRAM} {example.words}\n      {example.purpose}\n"


def actions_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers one level below."""
    return {name: child for each in _branches(parser) for name, child in each.choices.items()}


def arguments_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options and positional arguments of this parser, without the actions below it."""
    return [each for each in parser._actions if not isinstance(each, argparse._SubParsersAction)]


def _branches(parser: argparse.ArgumentParser) -> Iterator[Any]:
    return (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def describe(parser: argparse.ArgumentParser, words: str, examples: Sequence[Example]) -> None:
    """Give the parser and those below it the examples that begin with their words, and a description each."""
    if isinstance(parser, Parser):
        parser.examples = tuple(each for each in examples if f"{each.words} ".startswith(f"{words} "))
    for branch in _branches(parser):
        for shown in branch._choices_actions:
            branch.choices[shown.dest].description = branch.choices[shown.dest].description or shown.help
    for name, child in actions_of(parser).items():
        describe(child, f"{words} {name}", examples)
