"""Pipes and control operators pass only where a shell interprets them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.gemini.types import FunctionCall
from bridge.guards.base import Blocked
from bridge.guards.shell_gate import REASON, ShellGate
from bridge.settings import load
from bridge.settings.guards import ShellGateSettings as GateSettings

ANY_SPEED = settings(deadline=None)
SETTINGS = load(environ={}).guards
STRICT = ShellGate(SETTINGS)
MILD = ShellGate(replace(SETTINGS, shell_gate=replace(SETTINGS.shell_gate, strict=False)))
BOTH = pytest.mark.parametrize("gate", [STRICT, MILD], ids=["strict", "mild"])

SIGNS = ["|", "||", ";", "&", "&&", ">", ">>", "<", "<<"]


def shell(command: Any, tool: str = "shell") -> FunctionCall:
    return FunctionCall(tool, {"command": command})


def test_the_gate_is_strict_by_default() -> None:
    assert SETTINGS.shell_gate == GateSettings(strict=True, wrappers=("bash -lc", "apply_patch"))


# --- operators ---------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("tool", ["shell", "local_shell"])
@pytest.mark.parametrize("sign", SIGNS)
def test_a_shell_operator_as_a_word_is_blocked(sign: str, tool: str, gate: ShellGate) -> None:
    assert gate.on_call(shell(["ls", sign, "wc"], tool)) == Blocked(REASON)


@pytest.mark.parametrize("sign", SIGNS)
def test_a_shell_operator_inside_a_word_is_blocked_only_by_the_strict_gate(sign: str) -> None:
    call = shell(["grep", f"a{sign}b", "f"])
    assert STRICT.on_call(call) == Blocked(REASON)
    assert MILD.on_call(call) is call


@BOTH
@pytest.mark.parametrize("sign", SIGNS)
def test_a_shell_operator_in_a_shell_script_passes(sign: str, gate: ShellGate) -> None:
    call = shell(["bash", "-lc", f"a {sign} b"])
    assert gate.on_call(call) is call


@BOTH
@pytest.mark.parametrize("sign", SIGNS)
def test_a_shell_operator_in_an_unsplit_command_is_blocked(sign: str, gate: ShellGate) -> None:
    assert gate.on_call(shell(f"echo 'a {sign} b")) == Blocked(REASON)


HELD_BACK: dict[str, list[Any]] = {
    "the sign is the first word": ["|", "wc"],
    "the sign is the last word": ["sleep", "9", "&"],
    "the sign is the only word": [";"],
    "behind a number": ["head", 7, "|", "wc"],
    "behind a list": [["x"], ">", "f"],
    "another shell": ["sh", "-c", "ls", "|", "wc"],
    "the words of a script are not one": ["bash", "-lc", "ls", "|", "wc"],
    "something behind the script": ["bash", "-lc", "ls", "&&"],
    "something before the shell": ["sudo", "bash", "-lc", ";"],
    "the options in another order": ["bash", "-cl", "|"],
    "the option alone": ["bash", "-c", "|"],
    "the shell in another case": ["Bash", "-lc", "|"],
    "the shell with its folder": ["/bin/bash", "-lc", "|"],
    "the shell without a script": ["bash", "|"],
}


@BOTH
@pytest.mark.parametrize("command", HELD_BACK.values(), ids=HELD_BACK)
def test_only_a_configured_shell_with_one_script_passes(command: list[Any], gate: ShellGate) -> None:
    assert gate.on_call(shell(command)) == Blocked(REASON)


STRICTLY_HELD_BACK: dict[str, list[str]] = {
    "errors into the output": ["make", "2>&1"],
    "a redirection without blanks": ["echo", "a>f"],
    "an address with parameters": ["curl", "http://x/?a=1&b=2"],
    "a statement": ["psql", "-c", "select 1;"],
    "an arrow": ["grep", "->", "f"],
    "a here-text": ["cat", "<<<", "x"],
    "the program's name": ["ls;pwd"],
    "a script for another shell": ["sh", "-c", "ls | wc"],
    "among other languages": ["echo", "大|小"],
    "at the end of a megabyte": ["echo", "a" * 1_000_000 + ";"],
}


@pytest.mark.parametrize("command", STRICTLY_HELD_BACK.values(), ids=STRICTLY_HELD_BACK)
def test_the_strict_gate_checks_every_word(command: list[str]) -> None:
    assert STRICT.on_call(shell(command)) == Blocked(REASON)


# --- what passes -------------------------------------------------------------------------------------

PASSES: dict[str, FunctionCall] = {
    "words without signs": shell(["ls", "-a", "My Documents"]),
    "other signs of shells": shell(["echo", "$(ls)", "`ls`", "*", "~", "{a,b}", "!", "#", "(x)"]),
    "signs of other languages": shell(["echo", "｜", "；", "＆", "＞", "«x»", "→"]),
    "no words": shell([]),
    "an empty word": shell([""]),
    "a script for a shell": shell(["bash", "-lc", "ls | wc -l > f; cat < f && rm f &"]),
    "a script of many lines": shell(["bash", "-lc", "cat <<E\na\nE\n"]),
    "an empty script": shell(["bash", "-lc", ""]),
    "a text without signs": shell("echo 'a"),
    "the empty text": shell(""),
    "a number": shell(7),
    "a truth": shell(True),
    "null": shell(None),
    "an object": shell({"|": "|"}),
    "numbers": shell([7, 0.5, None, False]),
    "a list in a list": shell([["ls", "|", "wc"]]),
    "an object in a list": shell([{"a": "|"}]),
    "no arguments": FunctionCall("shell", {}),
    "arguments left out": FunctionCall("shell"),
    "a sign in another argument": FunctionCall("shell", {"command": ["ls"], "justification": "a | b"}),
    "a sign in the name of an argument": FunctionCall("shell", {"|": ["ls"]}),
    "another argument": FunctionCall("shell", {"cmd": ["ls", "|", "wc"]}),
    "Codex's shell, which takes a script": FunctionCall("exec_command", {"cmd": "ls | wc > f"}),
    "Claude Code's shell, which takes a script": shell("ls | wc && rm f", "Bash"),
    "Gemini CLI's shell, which takes a script": shell("a; b", "run_shell_command"),
    "another shell that takes a script": shell("a < b", "shell_command"),
    "a list for a shell that takes a script": shell(["ls", "|", "wc"], "Bash"),
    "a tool that is no shell": shell(["ls", "|", "wc"], "run"),
    "a shell with another case": shell(["ls", "|", "wc"], "SHELL"),
}


@BOTH
@pytest.mark.parametrize("call", PASSES.values(), ids=PASSES)
def test_all_other_calls_are_unchanged(call: FunctionCall, gate: ShellGate) -> None:
    assert gate.on_call(call) is call


# --- wrappers ----------------------------------------------------------------------------------------


def gate_with(*wrappers: str) -> ShellGate:
    return ShellGate(replace(SETTINGS, shell_gate=replace(SETTINGS.shell_gate, wrappers=wrappers)))


WRAPPERS: dict[str, tuple[tuple[str, ...], list[Any], bool]] = {
    "the second of two": (("bash -lc", "sh -c"), ["sh", "-c", "a|b"], True),
    "a long one": (("env -i bash -c",), ["env", "-i", "bash", "-c", "a|b"], True),
    "a single word": (("apply_patch",), ["apply_patch", "a > b;"], True),
    "only its beginning": (("env -i bash -c",), ["env", "-i", "a|b"], False),
    "one that is not named any more": (("sh -c",), ["bash", "-lc", "a|b"], False),
    "none at all": ((), ["bash", "-lc", "a|b"], False),
    "none at all, and one word": ((), ["a|b"], False),
    "its words in one": (("bash -lc", "apply_patch"), ["bash -lc", "a|b"], False),
}


@pytest.mark.parametrize(("wrappers", "command", "passes"), WRAPPERS.values(), ids=WRAPPERS)
def test_shells_that_may_run_scripts_are_configurable(
    wrappers: tuple[str, ...], command: list[Any], passes: bool
) -> None:
    call = shell(command)
    assert gate_with(*wrappers).on_call(call) == (call if passes else Blocked(REASON))


def test_the_reason_tells_the_model_what_to_do() -> None:
    assert REASON.startswith("[System] ")
    assert '["bash", "-lc", "<script>"]' in REASON


# --- any input ---------------------------------------------------------------------------------------

WORDS = st.text(max_size=5) | st.sampled_from([*SIGNS, "a|b", "bash", "-lc"]) | st.integers() | st.none()


@ANY_SPEED
@given(st.lists(WORDS, max_size=6))
def test_the_strict_gate_blocks_everything_that_the_mild_gate_blocks(command: list[Any]) -> None:
    call = shell(command)
    if isinstance(MILD.on_call(call), Blocked):
        assert isinstance(STRICT.on_call(call), Blocked)
    else:
        assert MILD.on_call(call) is call


@ANY_SPEED
@given(st.text())
def test_any_script_passes_as_a_shell_argument(script: str) -> None:
    call = shell(["bash", "-lc", script])
    assert STRICT.on_call(call) is call
