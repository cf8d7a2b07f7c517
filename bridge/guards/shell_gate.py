"""Pipes and redirections for a tool that runs words and no shell: they would be passed as arguments.

Only a shell understands them, so they pass only where one is named, with the script as its last word. In
strict mode a sign counts anywhere in a word. That holds back ["grep", "a|b", "f"] too, in which no shell
would ever see the sign; the milder mode lets it pass and holds back words that are nothing but a sign.
"""

from __future__ import annotations

import re
from typing import Any

from bridge.gemini.types import FunctionCall
from bridge.guards.base import Blocked, Guard

_OPERATOR_CHARACTER = re.compile(r"[|;&<>]")
_OPERATORS = frozenset({"|", "||", ";", "&", "&&", ">", ">>", "<", "<<"})

REASON = (
    "[System] This command was not run: the tool starts a program directly, without a shell, so pipes, "
    'redirections and ; & do not work in it. Use ["bash", "-lc", "<script>"] for a script.'
)


class ShellGate(Guard):
    name = "shell_gate"
    argv_only = True

    def on_call(self, call: FunctionCall) -> FunctionCall | Blocked:
        shell = self.settings.shell(call.name)
        if shell is None or shell.form != "argv" or not call.args:
            return call
        command = call.args.get(shell.argument)
        return Blocked(REASON) if self._uses_shell_syntax(command) else call

    def _uses_shell_syntax(self, command: Any) -> bool:
        if isinstance(command, str):  # one that could not be split: as a whole it is no program's name
            return _OPERATOR_CHARACTER.search(command) is not None
        if not isinstance(command, list) or self._runs_a_shell(command):
            return False
        words = [word for word in command if isinstance(word, str)]
        if self.settings.shell_gate.strict:
            return any(_OPERATOR_CHARACTER.search(word) for word in words)
        return any(word in _OPERATORS for word in words)

    def _runs_a_shell(self, command: list[Any]) -> bool:
        """A shell, its options, and the script as one word."""
        for wrapper in self.settings.shell_gate.wrappers:
            words = wrapper.split()
            if len(command) == len(words) + 1 and command[:-1] == words and isinstance(command[-1], str):
                return True
        return False
