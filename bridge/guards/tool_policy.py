"""Allows or denies calls by rules on tool and arguments. The matching rule with the highest priority decides.

A gateway cannot ask the user. So it forwards and counts a call with the decision `ask`, and the client asks
its user.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fnmatch import translate

import orjson

from bridge.gemini.types import FunctionCall
from bridge.guards.base import Blocked, Guard, NeedsApproval
from bridge.settings.guards import GuardSettings, PolicyRule
from bridge.settings.patterns import Pattern


@dataclass(frozen=True, slots=True)
class _CompiledRule:
    rule: PolicyRule
    tool: re.Pattern[str]
    args: Pattern | None

    def matches(self, call: FunctionCall, arguments: str) -> bool:
        if not self.tool.match(call.name):
            return False
        return self.args is None or self.args.found_in(arguments)


class ToolPolicy(Guard):
    name = "tool_policy"

    def __init__(self, settings: GuardSettings) -> None:
        super().__init__(settings)
        ordered = sorted(settings.rules, key=lambda rule: -rule.priority)
        self._rules = [_compile(rule) for rule in ordered]

    def on_call(self, call: FunctionCall) -> FunctionCall | Blocked | NeedsApproval:
        policy = self.settings.tool_policy
        if not self._rules and policy.default == "allow":
            return call
        arguments = _encode_arguments(call)
        matching = next((each.rule for each in self._rules if each.matches(call, arguments)), None)
        decision = policy.default if matching is None else matching.decision
        if decision == "deny" or (decision == "ask" and policy.non_interactive):
            return _blocked(call, matching)
        return NeedsApproval(call) if decision == "ask" else call


def _compile(rule: PolicyRule) -> _CompiledRule:
    args = Pattern(rule.args_pattern) if rule.args_pattern else None
    return _CompiledRule(rule, re.compile(translate(rule.tool)), args)


def _encode_arguments(call: FunctionCall) -> str:
    try:
        encoded = orjson.dumps(dict(call.args or {}), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return _encode_large_arguments(call)
    return encoded.decode()


def _encode_large_arguments(call: FunctionCall) -> str:
    """The arguments that orjson cannot encode: deep nesting and large numbers must not bypass a rule."""
    try:
        return json.dumps(call.args, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""


def _blocked(call: FunctionCall, rule: PolicyRule | None) -> Blocked:
    why = (
        rule.reason
        if rule is not None and rule.reason
        else "The tool policy of this gateway does not allow it."
    )
    return Blocked(f"[System] The call to {call.name} was not run. {why}")
