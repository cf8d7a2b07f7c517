"""A command string becomes a list of words for tools that expect one; all else is unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.gemini.types import FunctionCall
from bridge.guards.base import NotUnderstood
from bridge.guards.shell_arguments import LONGEST_SPLIT, ShellArguments
from bridge.settings import load

ANY_SPEED = settings(deadline=None)
GUARD = ShellArguments(load(environ={}).guards)


def shell(command: Any, tool: str = "shell") -> FunctionCall:
    return FunctionCall(tool, {"command": command})


SPLIT: dict[str, tuple[Any, list[str]]] = {
    "one word": ("ls", ["ls"]),
    "words": ("ls -a -F", ["ls", "-a", "-F"]),
    "words in double quotes": ('ls -F "My Documents"', ["ls", "-F", "My Documents"]),
    "words in single quotes": ("ls -F 'My Documents'", ["ls", "-F", "My Documents"]),
    "a quote within quotes": ("""echo "it's" '"so"'""", ["echo", "it's", '"so"']),
    "quotes in the middle of a word": ("grep --include='*.py' x", ["grep", "--include=*.py", "x"]),
    "a blank behind a backslash": (r"cat My\ Documents x", ["cat", "My Documents", "x"]),
    "a backslash in single quotes": (r"grep '\d' f", ["grep", r"\d", "f"]),
    "an empty word": ("git commit -m ''", ["git", "commit", "-m", ""]),
    "nothing but an empty word": ("''", [""]),
    "many blanks": ("  ls \t -a  ", ["ls", "-a"]),
    "a line end at the end": ("ls -a\n", ["ls", "-a"]),
    "lines within quotes": ("git commit -m 'a\n\nb'", ["git", "commit", "-m", "a\n\nb"]),
    "a number sign": ("grep # f", ["grep", "#", "f"]),
    "variables and stars": ("echo $HOME *.py", ["echo", "$HOME", "*.py"]),
    "signs, for the gate to see": ("ls | wc", ["ls", "|", "wc"]),
    "a script for a shell": ("bash -lc 'ls | wc'", ["bash", "-lc", "ls | wc"]),
    "another language": ("echo 'größe 大小' ключ", ["echo", "größe 大小", "ключ"]),
    "an emoji": ("echo 👍🏽 ok", ["echo", "👍🏽", "ok"]),
    "a list of one text": (["ls -aF"], ["ls", "-aF"]),
    "a list of one text with quotes": (['ls "My Documents"'], ["ls", "My Documents"]),
    "a list of one text with a tab": (["ls\t-a"], ["ls", "-a"]),
    "a list of one script for a shell": (["bash -lc 'ls | wc'"], ["bash", "-lc", "ls | wc"]),
    "as long as is split": ("a " * (LONGEST_SPLIT // 2), ["a"] * (LONGEST_SPLIT // 2)),
}


@pytest.mark.parametrize("tool", ["shell", "local_shell"])
@pytest.mark.parametrize(("command", "words"), SPLIT.values(), ids=SPLIT)
def test_a_command_string_is_split_like_a_shell_does(command: Any, words: list[str], tool: str) -> None:
    assert GUARD.on_call(shell(command, tool)) == shell(words, tool)


WORDS: dict[str, Any] = {
    "words": ["ls", "-a"],
    "words with blanks in them": ["cat", "My Documents"],
    "words with quotes in them": ["grep", "'a b'", '"'],
    "one word": ["ls"],
    "one word with quotes": ["'ls'"],
    "one empty word": [""],
    "a script for a shell": ["bash", "-lc", "ls -a | wc -l"],
    "a script with an open quote for a shell": ["bash", "-lc", "echo 'a"],
    "an empty script for a shell": ["bash", "-lc", ""],
    "a shell without a script": ["bash", "-lc"],
}


@pytest.mark.parametrize("command", WORDS.values(), ids=WORDS)
def test_a_list_of_words_is_unchanged(command: Any) -> None:
    call = shell(command)
    assert GUARD.on_call(call) is call


DOUBTFUL: dict[str, Any] = {
    "one blank word": [" \n"],
    "a blank that a shell does not split at": ["a\u00a0b"],
    "no word": [],
    "the empty text": "",
    "blanks": " \t\n",
    "an open double quote": 'echo "a b',
    "an open single quote": "echo it's",
    "an open quote in a list of one": ["echo 'a b"],
    "a backslash at the end": "echo a\\",
    "two lines, which are two commands": "cd x\nrm y",
    "two lines in a list of one": ["cd x\nrm y"],
    "a line that goes on in the next": "ls \\\n -l",
    "a number": 7,
    "a fraction": 0.5,
    "a truth": True,
    "null": None,
    "a number in a list": [7],
    "numbers among words": ["head", "-n", 7],
    "null in a list": [None],
    "a list in a list": [["ls -a"]],
    "an object": {"command": "ls -a"},
    "an object in a list": [{"command": "ls -a"}],
    "a megabyte": "a " * 500_000,
    "a megabyte in a list of one": ["a " * 500_000],
    "a megabyte of open quotes": "'" * 1_000_001,
}


@pytest.mark.parametrize("command", DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_command_that_cannot_be_split_passes_with_a_note(command: Any) -> None:
    call = shell(command)
    assert GUARD.on_call(call) == NotUnderstood(call)


OTHERS: dict[str, FunctionCall] = {
    "Codex's shell, which takes a script": FunctionCall("exec_command", {"cmd": "ls -a"}),
    "Claude Code's shell, which takes a script": shell("ls -a", "Bash"),
    "Gemini CLI's shell, which takes a script": shell("ls -a", "run_shell_command"),
    "another shell that takes a script": shell("ls -a", "shell_command"),
    "a tool that is no shell": shell("ls -a", "run"),
    "a shell with another case": shell("ls -a", "Shell"),
    "a tool without a name": shell("ls -a", ""),
}
WITHOUT_COMMAND: dict[str, FunctionCall] = {
    "another argument": FunctionCall("shell", {"cmd": "ls -a"}),
    "an argument around the argument": FunctionCall("shell", {"action": {"command": "ls -a"}}),
    "no arguments": FunctionCall("shell", {}),
    "arguments left out": FunctionCall("shell"),
}


@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
def test_other_tools_are_unchanged(call: FunctionCall) -> None:
    assert GUARD.on_call(call) is call


@pytest.mark.parametrize("call", WITHOUT_COMMAND.values(), ids=WITHOUT_COMMAND)
def test_a_shell_without_a_command_passes_with_a_note(call: FunctionCall) -> None:
    assert GUARD.on_call(call) == NotUnderstood(call)


def test_other_fields_of_a_split_call_keep_their_order() -> None:
    args = {"workdir": "a b", "command": "ls -a", "timeout_ms": 5, "env": {"x": ["y z"]}}
    split = GUARD.on_call(FunctionCall("shell", args, "call_1", {"later": "field"}))
    assert split == FunctionCall("shell", {**args, "command": ["ls", "-a"]}, "call_1", {"later": "field"})
    assert list(split.args or {}) == list(args)


def test_the_original_call_is_not_modified() -> None:
    command = ["ls -a"]
    call = shell(command)
    GUARD.on_call(call)
    assert call == shell(["ls -a"])
    assert command == ["ls -a"]


# --- any input ---------------------------------------------------------------------------------------

SCRAPS = st.lists(st.sampled_from(["ls", "a b", " ", "\n", "'", '"', "\\", "|", "é", "\0"]), max_size=8)
TEXTS = st.text(max_size=20) | SCRAPS.map("".join)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@ANY_SPEED
@given(ANYTHING)
@example("'ls -a'")
@example(["'ls -a'"])
@example(r"My\ Program")
def test_splitting_is_idempotent(command: Any) -> None:
    judged = GUARD.on_call(shell(command))
    once = judged.call if isinstance(judged, NotUnderstood) else judged
    again = GUARD.on_call(once)
    assert (again.call if isinstance(again, NotUnderstood) else again) is once


@ANY_SPEED
@given(st.lists(st.text(max_size=10), min_size=2, max_size=5))
def test_two_words_or_more_are_never_touched(words: list[str]) -> None:
    call = shell(words)
    assert GUARD.on_call(call) is call


PLAIN_WORDS = st.text("abz/.-_=é大", min_size=1, max_size=6)


@ANY_SPEED
@given(st.lists(PLAIN_WORDS, min_size=2, max_size=6))
def test_joined_words_are_split_into_the_same_words(words: list[str]) -> None:
    assert GUARD.on_call(shell(" ".join(words))) == shell(words)
    assert GUARD.on_call(shell([" ".join(words)])) == shell(words)
