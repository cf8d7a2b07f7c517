"""The matching rule with the highest priority decides whether a call is forwarded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.gemini.types import FunctionCall
from bridge.guards.base import Blocked, NeedsApproval
from bridge.guards.tool_policy import ToolPolicy
from bridge.settings import load
from bridge.settings.guards import PolicyRule, ToolPolicySettings

ANY_SPEED = settings(deadline=None)
SETTINGS = load(environ={}).guards


def policy(*rules: PolicyRule, default: str = "allow", non_interactive: bool = False) -> ToolPolicy:
    return ToolPolicy(
        replace(SETTINGS, rules=rules, tool_policy=ToolPolicySettings(default, non_interactive))
    )


def deny(tool: str, args_pattern: str = "", priority: int = 0) -> PolicyRule:
    return PolicyRule(tool, "deny", args_pattern, priority)


def allow(tool: str, args_pattern: str = "", priority: int = 0) -> PolicyRule:
    return PolicyRule(tool, "allow", args_pattern, priority)


def ask(tool: str, args_pattern: str = "", priority: int = 0) -> PolicyRule:
    return PolicyRule(tool, "ask", args_pattern, priority)


def is_held_back(guard: ToolPolicy, name: str, args: Any = None) -> bool:
    call = FunctionCall(name, args)
    judged = guard.on_call(call)
    assert judged is call or isinstance(judged, Blocked) or judged == NeedsApproval(call)
    return isinstance(judged, Blocked)


# --- which tools -------------------------------------------------------------------------------------

NAMES: list[tuple[str, str, bool]] = [
    ("Bash", "Bash", True),
    ("Bash", "bash", False),
    ("Bash", "BashOutput", False),
    ("Bash", "MyBash", False),
    ("Bash", "Bash\n", False),
    ("github__*", "github__push", True),
    ("github__*", "github__issues__close", True),
    ("github__*", "github__", True),
    ("github__*", "github_push", False),
    ("github__*", "my_github__push", False),
    ("github__*", "GitHub__push", False),
    ("mcp__*__delete", "mcp__files__delete", True),
    ("mcp__*__delete", "mcp__files__sub__delete", True),
    ("mcp__*__delete", "mcp__files__delete_all", False),
    ("*__delete", "files__delete", True),
    ("*", "anything", True),
    ("*", "", True),
    ("*", "mit\nzeile", True),
    ("größe__*", "größe__大", True),
    ("a.c", "abc", False),
    ("a.c", "a.c", True),
    ("a+", "aa", False),
    ("a|b", "a", False),
]


@pytest.mark.parametrize(("tool", "name", "fits"), NAMES)
def test_a_rule_matches_a_tool_name_or_a_wildcard(tool: str, name: str, fits: bool) -> None:
    assert is_held_back(policy(deny(tool)), name) is fits
    assert is_held_back(policy(allow(tool), default="deny"), name) is not fits


# --- which arguments ---------------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


ARGUMENTS: dict[str, tuple[str, Any, bool]] = {
    "a text in a value": ("rm -rf", {"command": "rm -rf /"}, True),
    "another text": ("rm -rf", {"command": "rm -r /"}, False),
    "the name of an argument": ('"force":', {"force": False}, True),
    "name and value, without blanks between": ('"force":true', {"force": True}, True),
    "keys in the order of the alphabet": ('"a":1.*"b":2', {"b": 2, "a": 1}, True),
    "never in another": ('"b":2.*"a":1', {"b": 2, "a": 1}, False),
    "keys within are sorted too": (r'\{"a":1,"b":2\}', {"x": {"b": 2, "a": 1}}, True),
    "the whole from its beginning": (r'^\{"a":1\}$', {"a": 1}, True),
    "the items of a list": (r'"rm","-rf"', {"command": ["rm", "-rf", "/"]}, True),
    "a quote is written with a backslash": (r'\\"x\\"', {"command": 'echo "x"'}, True),
    "a line end is written with a backslash": (r"a\\nb", {"command": "a\nb"}, True),
    "other languages stand as they are": ("größe 大", {"text": "größe 大"}, True),
    "null": ('"a":null', {"a": None}, True),
    "no arguments are an empty object": (r"^\{\}$", {}, True),
    "arguments left out are one too": (r"^\{\}$", None, True),
    "large and small letters are told apart": ("RM", {"command": "rm"}, False),
    "unless the pattern says otherwise": ("(?i)RM", {"command": "rm"}, True),
    "at the end of long arguments": ("rm -rf", {"a": "x" * 1_000_000, "z": "rm -rf /"}, True),
    "a match as long as the arguments": (r"^.*x.*z.*$", {"a": "x" * 100_000, "z": ""}, True),
    "beside half a character": ("rm -rf", {"a": "\ud800", "z": "rm -rf /"}, True),
    "beside deeply nested ones": ("rm -rf", {"a": nested(300), "z": "rm -rf /"}, True),
    "beside a whole number beyond all bounds": ("rm -rf", {"a": 10**30, "z": "rm -rf /"}, True),
}


@pytest.mark.parametrize(("pattern", "args", "fits"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_pattern_is_searched_in_the_arguments_as_sorted_json(pattern: str, args: Any, fits: bool) -> None:
    assert is_held_back(policy(deny("Bash", pattern)), "Bash", args) is fits


def test_tool_and_pattern_must_both_match() -> None:
    guard = policy(deny("Bash", "rm"))
    assert is_held_back(guard, "Bash", {"command": "rm x"})
    assert not is_held_back(guard, "Bash", {"command": "ls x"})
    assert not is_held_back(guard, "exec_command", {"cmd": "rm x"})


# --- which rule --------------------------------------------------------------------------------------

PRIORITIES: dict[str, tuple[tuple[PolicyRule, ...], bool]] = {
    "the higher one, though it comes later": ((allow("f"), deny("f", priority=1)), True),
    "the higher one, though the other denies": ((deny("f"), allow("f", priority=1)), False),
    "zero is higher than less": ((deny("f", priority=-1), allow("f")), False),
    "of equals the first": ((deny("f"), allow("f")), True),
    "of equals the first, whichever it is": ((allow("f"), deny("f")), False),
    "of higher equals the first": (
        (allow("f"), deny("f", priority=2), allow("f", priority=2), allow("f", priority=1)),
        True,
    ),
    "a wildcard counts as much as a name": ((deny("*"), allow("f")), True),
    "a higher one that does not fit decides nothing": ((deny("g", priority=9), allow("f")), False),
    "nor one whose pattern does not fit": ((allow("f", "nowhere", 9), deny("f")), True),
    "all but one": ((deny("*"), allow("f", priority=1)), False),
    "an asking rule is passed over by none": ((ask("f", priority=1), deny("f")), False),
}


@pytest.mark.parametrize(("rules", "held_back"), PRIORITIES.values(), ids=PRIORITIES)
def test_the_highest_priority_and_then_the_first_rule_wins(
    rules: tuple[PolicyRule, ...], held_back: bool
) -> None:
    assert is_held_back(policy(*rules), "f", {"a": 1}) is held_back


# --- decisions ---------------------------------------------------------------------------------------

DECISIONS: list[tuple[str, bool, bool]] = [
    ("allow", False, False),
    ("allow", True, False),
    ("deny", False, True),
    ("deny", True, True),
    ("ask", False, False),
    ("ask", True, True),
]


@pytest.mark.parametrize(("decision", "non_interactive", "held_back"), DECISIONS)
def test_ask_means_deny_only_in_non_interactive_use(
    decision: str, non_interactive: bool, held_back: bool
) -> None:
    by_rule = policy(PolicyRule("f", decision), non_interactive=non_interactive)
    assert is_held_back(by_rule, "f") is held_back
    assert not is_held_back(by_rule, "g")
    by_default = policy(default=decision, non_interactive=non_interactive)
    assert is_held_back(by_default, "f") is held_back


def test_a_call_that_needs_approval_is_forwarded_and_marked() -> None:
    call = FunctionCall("f", {"a": 1})
    assert policy(ask("f")).on_call(call) == NeedsApproval(call)
    assert policy(allow("f")).on_call(call) is call


def test_with_a_default_of_deny_only_allowed_calls_pass() -> None:
    guard = policy(allow("read_*"), ask("write", '"path":"/tmp/'), default="deny")
    assert not is_held_back(guard, "read_file", {"path": "/etc/x"})
    assert not is_held_back(guard, "write", {"path": "/tmp/x"})
    assert is_held_back(guard, "write", {"path": "/etc/x"})
    assert is_held_back(guard, "Bash", {"command": "ls"})


# --- reasons -----------------------------------------------------------------------------------------

NO_REASON = "The tool policy of this gateway does not allow it."

REASONS: dict[str, tuple[ToolPolicy, str]] = {
    "the rule's own": (policy(PolicyRule("f", "deny", reason="Not on Fridays.")), "Not on Fridays."),
    "of a rule that asks": (
        policy(PolicyRule("f", "ask", reason="Ask first."), non_interactive=True),
        "Ask first.",
    ),
    "of the rule that decided": (
        policy(PolicyRule("f", "deny", reason="Low."), PolicyRule("f", "deny", "", 1, "High.")),
        "High.",
    ),
    "a rule without one": (policy(deny("f")), NO_REASON),
    "the default": (policy(default="deny"), NO_REASON),
    "the default beside a rule that does not fit": (
        policy(PolicyRule("g", "deny", reason="Not g."), default="deny"),
        NO_REASON,
    ),
}


@pytest.mark.parametrize(("guard", "reason"), REASONS.values(), ids=REASONS)
def test_the_model_is_told_which_call_was_not_run_and_why(guard: ToolPolicy, reason: str) -> None:
    held_back = Blocked(f"[System] The call to f was not run. {reason}")
    assert guard.on_call(FunctionCall("f", {"secret": "hunter2"})) == held_back


# --- nothing to do -----------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.none() | st.dictionaries(st.text(max_size=5), ANYTHING, max_size=3)


@ANY_SPEED
@given(st.text(max_size=9), ARGS)
def test_without_rules_every_call_is_unchanged(name: str, args: Any) -> None:
    call = FunctionCall(name, args, "call_1", {"later": "field"})
    assert ToolPolicy(SETTINGS).on_call(call) is call


@ANY_SPEED
@given(st.text(max_size=9), ARGS)
def test_any_call_gets_a_decision(name: str, args: Any) -> None:
    assert is_held_back(policy(deny("*", "^")), name, args)
    assert not is_held_back(policy(deny("*", r"[^\x00-\x{10FFFF}]")), name, args)
