"""The guards file is checked at start, and each error is reported with its position."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from bridge.settings import SettingsError, load
from bridge.settings.guards import (
    GuardModes,
    GuardSettings,
    LoopSettings,
    PatchTool,
    PolicyRule,
    ShellGateSettings,
    ShellTool,
    ToolPolicySettings,
    load_guards,
)
from bridge.settings.patterns import checked_pattern

DELIVERED = Path(__file__).parent.parent.parent / "config" / "guards.toml"

Read = Callable[[str], GuardSettings]


@pytest.fixture
def guards(tmp_path: Path) -> Path:
    return tmp_path / "guards.toml"


@pytest.fixture
def read(guards: Path) -> Read:
    def write_and_read(text: str) -> GuardSettings:
        guards.write_text(text, "utf-8")
        return load_guards(guards)

    return write_and_read


# --- delivered file ----------------------------------------------------------------------------------


def test_as_delivered_all_guards_are_enforced_but_the_redaction_of_secrets() -> None:
    modes = asdict(load_guards(DELIVERED).modes)
    assert modes.pop("secrets") == "off"
    assert modes == dict.fromkeys(
        ("tool_policy", "shell_arguments", "apply_patch", "shell_gate", "loop", "large_output"), "enforce"
    )


def test_as_delivered_the_policy_has_no_rules_and_allows() -> None:
    settings = load_guards(DELIVERED)
    assert settings.rules == ()
    assert settings.tool_policy == ToolPolicySettings("allow", non_interactive=False)


def test_delivered_guard_limits_match_the_specification() -> None:
    settings = load_guards(DELIVERED)
    assert (settings.loop.failures, settings.loop.successes) == (2, 3)
    assert (settings.loop.window, settings.loop.alike) == (10, 0.8)
    assert settings.large_output.most_characters == 50_000
    assert settings.shell_gate == ShellGateSettings(strict=True, wrappers=("bash -lc", "apply_patch"))


@pytest.mark.parametrize("tool", ["write_stdin", "wait", "TaskOutput"])
def test_as_delivered_tools_that_poll_are_exempt_from_loops(tool: str) -> None:
    assert tool in load_guards(DELIVERED).loop.polling


TOOLS = [
    ("shell", "command", "argv"),
    ("local_shell", "command", "argv"),
    ("exec_command", "cmd", "script"),
    ("Bash", "command", "script"),
    ("run_shell_command", "command", "script"),
]


@pytest.mark.parametrize(("tool", "argument", "form"), TOOLS)
def test_as_delivered_the_shells_of_the_agents_are_known(tool: str, argument: str, form: str) -> None:
    shell = load_guards(DELIVERED).shell(tool)
    assert shell is not None
    assert (shell.argument, shell.form) == (argument, form)


def test_as_delivered_the_patch_tool_is_known_with_its_freeform_input() -> None:
    patch = load_guards(DELIVERED).patch("apply_patch")
    assert patch is not None
    assert "input" in patch.arguments


@pytest.mark.parametrize("tool", ["Shell", "", "Read", "shell "])
def test_other_tools_are_neither_shells_nor_patches(tool: str) -> None:
    settings = load_guards(DELIVERED)
    assert settings.shell(tool) is None
    assert settings.patch(tool) is None


def test_the_delivered_file_and_the_code_agree_on_every_switch() -> None:
    written = tomllib.loads(DELIVERED.read_text("utf-8"))
    built_in = GuardSettings()
    for section in ("modes", "shell_gate", "large_output", "tool_policy"):
        expected = asdict(getattr(built_in, section))
        found = {
            key: tuple(value) if isinstance(value, list) else value for key, value in written[section].items()
        }
        assert found == expected, section
    assert written["loop"].keys() == asdict(LoopSettings()).keys()


def test_the_settings_hold_the_delivered_guards() -> None:
    assert load(environ={}).guards == load_guards(DELIVERED)


# --- reading -----------------------------------------------------------------------------------------


def test_an_empty_file_means_the_defaults(read: Read) -> None:
    assert read("") == GuardSettings()


def test_every_guard_setting_can_be_set(read: Read) -> None:
    settings = read(
        """
        [modes]
        secrets = "shadow"
        [shell_gate]
        strict = false
        wrappers = []
        [tool_policy]
        default = "ask"
        non_interactive = true
        [[shell]]
        tools = ["sh"]
        argument = "line"
        form = "script"
        [[patch]]
        tools = ["edit"]
        arguments = ["diff"]
        [[rule]]
        tool = "a__*"
        decision = "deny"
        args_pattern = "x"
        priority = -3
        reason = "No."
        [[rule]]
        tool = "b"
        decision = "allow"
        """
    )
    assert settings == GuardSettings(
        modes=GuardModes(secrets="shadow"),
        shell_gate=ShellGateSettings(strict=False, wrappers=()),
        tool_policy=ToolPolicySettings("ask", non_interactive=True),
        shells=(ShellTool(("sh",), "line", "script"),),
        patches=(PatchTool(("edit",), ("diff",)),),
        rules=(PolicyRule("a__*", "deny", "x", -3, "No."), PolicyRule("b", "allow")),
    )


def test_a_pattern_keeps_its_spaces(read: Read) -> None:
    (rule,) = read('[[rule]]\ntool = "f"\ndecision = "deny"\nargs_pattern = "rm "\n').rules
    assert rule.args_pattern == "rm "


# --- errors ------------------------------------------------------------------------------------------

RULE = '[[rule]]\ntool = "f"\ndecision = "deny"\n'
SHELL = '[[shell]]\ntools = ["sh"]\nargument = "a"\nform = "argv"\n'

WRONG: dict[str, tuple[str, list[str]]] = {
    "an unknown section": ("[mode]\n", ["mode is unknown", "did you mean modes?"]),
    "an unknown section like none": ("[xyz]\n", ["xyz is unknown", "known names: modes, "]),
    "an unknown list": ("[[rules]]\n", ["rules is unknown", "did you mean rule?"]),
    "a value outside a section": ("strict = true\n", ["strict is unknown"]),
    "an unknown guard": ("[modes]\nloops = 'off'\n", ["[modes]", "loops", "did you mean loop?"]),
    "an unknown mode": ("[modes]\nloop = 'on'\n", ["[modes]: loop", "off, shadow or enforce", "'on'"]),
    "a mode in another case": ("[modes]\nloop = 'OFF'\n", ["[modes]: loop", "off, shadow or enforce"]),
    "a mode that is a switch": ("[modes]\nloop = false\n", ["[modes]: loop", "not false"]),
    "an unknown key": ("[shell_gate]\nstrikt = true\n", ["[shell_gate]", "strikt", "did you mean strict?"]),
    "a switch that is a text": ("[shell_gate]\nstrict = 'yes'\n", ["[shell_gate]: strict", "true or false"]),
    "too few failures": ("[loop]\nfailures = 1\n", ["[loop]: failures", "at least 2"]),
    "too large a share": ("[loop]\nalike = 1.5\n", ["[loop]: alike", "from 0.1 to 1"]),
    "too small a limit": ("[large_output]\nmost_characters = 10\n", ["most_characters", "at least 1000"]),
    "an unknown default": (
        "[tool_policy]\ndefault = 'no'\n",
        ["[tool_policy]: default", "allow, deny or ask"],
    ),
    "a section that is no table": ("modes = 'off'\n", ["[modes]", "must be a table"]),
    "a list that is a table": ("[rule]\ntool = 'f'\n", ["rule must be a list of tables"]),
    "an unknown key of a rule": (RULE + "pattern = 'x'\n", ["[[rule]] 1", "pattern", "args_pattern"]),
    "an unknown decision": ("[[rule]]\ntool = 'f'\ndecision = 'no'\n", ["[[rule]] 1: decision", "'no'"]),
    "a priority that is no number": (RULE + "priority = 'x'\n", ["[[rule]] 1: priority", "a whole number"]),
    "the second rule": (RULE + RULE + "priority = true\n", ["[[rule]] 2: priority"]),
    "a rule without a tool": ("[[rule]]\ndecision = 'deny'\n", ["[[rule]] 1", "missing", "tool"]),
    "a rule without a decision": (RULE + "[[rule]]\ntool = 'f'\n", ["[[rule]] 2", "missing", "decision"]),
    "a shell without tools": ("[[shell]]\nargument = 'a'\nform = 'argv'\n", ["[[shell]] 1", "tools"]),
    "a shell without an argument": ("[[shell]]\ntools = ['a']\nform = 'argv'\n", ["[[shell]] 1", "argument"]),
    "a shell without a form": (SHELL + "[[shell]]\ntools = ['a']\nargument = 'a'\n", ["[[shell]] 2", "form"]),
    "an unknown form": ("[[shell]]\ntools = ['a']\nargument = 'a'\nform = 'x'\n", ["form", "argv or script"]),
    "a patch without arguments": ("[[patch]]\ntools = ['a']\n", ["[[patch]] 1", "missing", "arguments"]),
    "an open group": (RULE + "args_pattern = '(a'\n", ["[[rule]] 1: args_pattern", "regular expression"]),
    "nothing to repeat": (
        RULE + "args_pattern = '*a'\n",
        ["[[rule]] 1: args_pattern", "no argument for repetition"],
    ),
    "a bad pattern in the second rule": (RULE + RULE + "args_pattern = '['\n", ["[[rule]] 2: args_pattern"]),
    "a pattern that looks ahead": (RULE + "args_pattern = '(?=a)'\n", ["[[rule]] 1: args_pattern", "(?="]),
    "no TOML": ("[modes\n", ["invalid TOML"]),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG)
def test_an_error_is_named_with_its_file_and_position(
    text: str, words: list[str], read: Read, guards: Path
) -> None:
    with pytest.raises(SettingsError) as failed:
        read(text)
    message = str(failed.value)
    assert message.startswith(f"{guards}: ")
    assert [word for word in words if word not in message] == []


def test_only_required_values_are_reported_as_missing(read: Read) -> None:
    with pytest.raises(SettingsError) as failed:
        read('[[rule]]\ntool = "f"\n')
    assert "decision" in str(failed.value)
    assert "priority" not in str(failed.value)


def test_a_missing_file_is_named(guards: Path) -> None:
    with pytest.raises(SettingsError, match=r"guards\.toml: the file does not exist"):
        load_guards(guards)


# --- patterns ----------------------------------------------------------------------------------------

#: Each pattern is extremely slow in Python's own engine on one of the texts below.
RUNAWAY = [
    "(a+)+b",
    "(a*)*b",
    "(?:a|aa)+$",
    "(a?b?)*c",
    "(?i:(a+)+)b",
    "(a|b|ab)*c",
    ".*.*.*.*=",
    "a*a*a*a*b",
    "a+b",
    r"(?:\w+\s*)+x$",
]


@pytest.mark.parametrize("pattern", RUNAWAY)
def test_accepted_patterns_have_no_catastrophic_backtracking(pattern: str) -> None:
    checked = checked_pattern(pattern, "here")
    began = time.process_time()
    for text in ("a" * 300_000, "ab" * 150_000, "a " * 150_000):
        checked.found_in(text)
    assert time.process_time() - began < 5


ORDINARY = [
    "rm -rf /",
    "rm.*-rf",
    r"^\{\}$",
    r'"path":"/etc/[^"]*"',
    r"\bsudo\b",
    "(?:push|merge) --force",
    "(git|hg) +push",
    "[a-z]+@[a-z]+",
    "a*b+c?",
    "(a|b)*c",
    "(?:ab)+",
    "(abc){3}",
    "(a+)?",
    "(?:x+|y+)z",
    r"(\d{1,3}\.){3}\d{1,3}",
    "(?i)drop table",
    "größe|大小",
    "",
]


@pytest.mark.parametrize("pattern", ORDINARY)
def test_an_ordinary_pattern_is_accepted(pattern: str) -> None:
    assert checked_pattern(pattern, "here")


BROKEN = [
    "(",
    ")",
    "[",
    "a**",
    "*",
    "?",
    r"\1",
    "a{2,1}",
    "(?<=a+)b",
    "\\",
    "(?Z)",
    "(?!a)",
]


@pytest.mark.parametrize("pattern", BROKEN)
def test_an_invalid_pattern_is_refused_with_its_position(pattern: str) -> None:
    with pytest.raises(SettingsError, match=r"^here is not a regular expression that RE2 understands: "):
        checked_pattern(pattern, "here")
