"""Blocks pipes and redirections for a tool that starts programs without a shell.

The program would get them as arguments. So they are allowed only if the command names a shell, with the
script as its last word. Strict mode blocks an operator character anywhere in a word, even in ["grep",
"a|b", "f"], where it is harmless. The other mode blocks only words that consist of an operator.
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
        if isinstance(command, str):  # not split, so it is not the name of a program
            return _OPERATOR_CHARACTER.search(command) is not None
        if not isinstance(command, list) or self._runs_a_shell(command):
            return False
        words = [word for word in command if isinstance(word, str)]
        if self.settings.shell_gate.strict:
            return any(_OPERATOR_CHARACTER.search(word) for word in words)
        return any(word in _OPERATORS for word in words)

    def _runs_a_shell(self, command: list[Any]) -> bool:
        """Whether the command is a shell with its options and the script as one word."""
        for wrapper in self.settings.shell_gate.wrappers:
            words = wrapper.split()
            if len(command) == len(words) + 1 and command[:-1] == words and isinstance(command[-1], str):
                return True
        return False
