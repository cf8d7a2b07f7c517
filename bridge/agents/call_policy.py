"""Decides whether a call of a tool runs: the rules of the guard `tool_policy`, and the tool's own nature.

The rules of `guards.toml` apply, and those of the agent come first if their priority is equal. Without a
matching rule a tool that is safe without a person runs, and any other tool needs approval.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from bridge.agents.tool import Tool
from bridge.agents.tool_call import ToolCall
from bridge.gemini.types import FunctionCall
from bridge.guards.base import Blocked, NeedsApproval
from bridge.guards.tool_policy import ToolPolicy
from bridge.settings.guards import GuardSettings, PolicyRule, ToolPolicySettings


class Decision(Enum):
    ALLOW = auto()
    DENY = auto()
    ASK = auto()


class Verdict(NamedTuple):
    decision: Decision
    reason: str = ""


class Approver(Protocol):
    """Brings calls to a person who approves or denies them."""

    time_limit: float  #: seconds for which a call waits

    def ask(self, call: ToolCall) -> None:
        """Called once for each call that needs approval."""

    def verdict(self, call: ToolCall) -> Verdict | None:
        """The decision: allow or deny; None until there is one. Called at every tick."""


NOBODY = "The call needs the approval of a person, and nobody can approve it here."


class CallPolicy:
    def __init__(self, guards: GuardSettings, rules: Sequence[PolicyRule] = ()) -> None:
        settings = GuardSettings(
            rules=(*rules, *guards.rules),
            tool_policy=ToolPolicySettings(guards.tool_policy.default, guards.tool_policy.non_interactive),
        )
        cautious = ToolPolicySettings("ask", guards.tool_policy.non_interactive)
        self._unattended = ToolPolicy(settings)
        self._attended = ToolPolicy(GuardSettings(rules=settings.rules, tool_policy=cautious))

    def verdict(self, call: FunctionCall, tool: Tool) -> Verdict:
        policy = self._unattended if tool.description.unattended else self._attended
        found = policy.on_call(call)
        if isinstance(found, Blocked):
            return Verdict(Decision.DENY, found.reason)
        return Verdict(Decision.ASK if isinstance(found, NeedsApproval) else Decision.ALLOW)
