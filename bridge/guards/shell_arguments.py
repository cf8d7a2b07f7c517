"""Splits a command that the model sent as one text to a tool that takes a list of words."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from bridge.gemini.types import FunctionCall
from bridge.guards.base import Guard, NotUnderstood

#: Longer commands are not split: `shlex` copies the word for each of its characters, and 100 000 take 0.3 s.
LONGEST_SPLIT = 20_000


class ShellArguments(Guard):
    name = "shell_arguments"
    argv_only = True

    def on_call(self, call: FunctionCall) -> FunctionCall | NotUnderstood:
        shell = self.settings.shell(call.name)
        if shell is None or shell.form != "argv":
            return call
        args = call.args or {}
        given = args.get(shell.argument)
        words = _split_command(given)
        if words is None:
            return call if _is_argv(given) else NotUnderstood(call)
        return call if words == given else replace(call, args={**args, shell.argument: words})


def _is_argv(command: Any) -> bool:
    """Whether the tool can run the command. A single word with blanks is a command that could not be
    split."""
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        return False
    return len(command) > 1 or (len(command) == 1 and not _has_whitespace(command[0]))


def _split_command(command: Any) -> list[str] | None:
    """The words of the command, or None if there is nothing to split or the split is ambiguous."""
    if isinstance(command, list):
        if len(command) != 1 or not isinstance(command[0], str) or not _has_whitespace(command[0]):
            return None
        command = command[0]
    if not isinstance(command, str) or not command.strip() or len(command) > LONGEST_SPLIT:
        return None
    try:
        words = shlex.split(command)
        lines = _split_at_blanks(command.strip())
    except ValueError:  # an unclosed quote
        return None
    if words != lines or "\\\n" in command:  # several lines may be several commands
        return None
    if len(words) == 1 and _has_whitespace(words[0]):  # the next check would split it again
        return None
    return words


def _split_at_blanks(command: str) -> list[str]:
    """The words, split at spaces and tabs but not at line ends."""
    lexer = shlex.shlex(command, posix=True)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    return list(lexer)


def _has_whitespace(text: str) -> bool:
    return any(character.isspace() for character in text)
