"""What the parsers say about the command line: for shell completion, the man page and docs/COMMANDS.md."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from bridge.cli import COMMANDS, make_parser
from bridge.cli.command import Example
from bridge.cli.parser import Parser, actions_of, arguments_of


@dataclass(frozen=True, slots=True)
class Argument:
    """An option, or a positional argument if it has no flags."""

    flags: tuple[str, ...]
    metavar: str  #: the name of its value; empty for a switch
    help: str
    values: tuple[str, ...]  #: the possible values, if they are few and known
    is_file: bool


@dataclass(frozen=True, slots=True)
class Outline:
    """A command and the commands below it."""

    words: tuple[str, ...]  #: such as ("key", "add"); empty for the program
    help: str
    usage: str
    arguments: tuple[Argument, ...]
    examples: tuple[Example, ...]
    below: tuple[Outline, ...]

    @property
    def path(self) -> str:
        return " ".join(self.words)

    def all(self) -> Iterator[Outline]:
        yield self
        for each in self.below:
            yield from each.all()


def outline() -> Outline:
    """The outline of the whole program."""
    return _outline(make_parser(), ())


def _outline(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Outline:
    known = COMMANDS[words[0]].completions if words else {}
    return Outline(
        words,
        parser.description or "",
        " ".join(parser.format_usage().removeprefix("usage: ").split()),
        tuple(_argument(each, parser.prog, known) for each in arguments_of(parser)),
        parser.examples if isinstance(parser, Parser) else (),
        tuple(_outline(child, (*words, name)) for name, child in actions_of(parser).items()),
    )


def _argument(action: argparse.Action, program: str, known: Mapping[str, Collection[str]]) -> Argument:
    name = action.metavar if isinstance(action.metavar, str) else action.dest
    values = tuple(map(str, action.choices or known.get(action.dest, ())))
    if "|" in name:
        values = tuple(name.split("|"))
    if values and action.metavar is None:
        name = "|".join(values)
    elif action.option_strings:
        name = name if action.metavar else name.upper()
    return Argument(
        tuple(action.option_strings),
        "" if action.nargs == 0 else name,
        (action.help or "") % (vars(action) | {"prog": program}),
        values,
        action.nargs != 0 and "file" in (action.dest, name.lower()),
    )
