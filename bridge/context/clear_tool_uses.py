"""Clears the results of old tool uses, and their arguments too, if the client asks for it.

The edit replays the conversation request by request. A request whose prompt is above the trigger clears all
tool uses but the newest; what is cleared stays cleared, and the next clearing waits until the prompt is above
the trigger again. So between two clearings each prompt begins like the one before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple, Self

from bridge.context.base import ClientEdit, Edited
from bridge.context.estimate import part_tokens, request_tokens
from bridge.context.history import History, history_of
from bridge.gemini.context_steps import CLEAR_TOOL_USES
from bridge.gemini.types import (
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    JsonObject,
    Part,
)
from bridge.settings.context import ContextSettings


@dataclass(frozen=True, slots=True)
class ClearingRules:
    """The client's options, with the vendor's defaults."""

    input_tokens: int | None = None  #: clear if the prompt has more tokens
    tool_uses: int | None = None  #: clear if there are more tool uses that can be cleared
    keep: int = 3  #: the newest tool uses, which stay
    clear_at_least: int = 0  #: tokens
    exclude_tools: Collection[str] = ()
    clear_tool_inputs: bool | Collection[str] = False  #: of all tools, or of these

    def clears_inputs_of(self, tool: str) -> bool:
        wanted = self.clear_tool_inputs
        return wanted if isinstance(wanted, bool) else tool in wanted


class _ToolUse(NamedTuple):
    """A call and its result: the turn and the part of each, and what clearing makes of them."""

    call_at: tuple[int, int]
    result_at: tuple[int, int]
    call: Part
    result: Part
    saved: int  #: estimated tokens; 0 if it stays: its tool is excluded, or clearing it would save nothing


class ClearToolUses(ClientEdit):
    name = CLEAR_TOOL_USES
    rules = ClearingRules()

    @classmethod
    def wished(cls, settings: ContextSettings, options: JsonObject) -> Self:
        edit = cls(settings)
        edit.rules = ClearingRules(**options)
        return edit

    def apply(self, request: GenerateRequest) -> Edited:
        rules = self.rules
        if rules.input_tokens is not None and request_tokens(request) <= rules.input_tokens:
            return Edited(request)
        history, notes = history_of(request)
        uses = [use for position in range(len(history.turns)) for use in _uses(history, position, rules)]
        cleared = [use for use in uses[: _cleared(history, uses, rules)] if use.saved]
        if not cleared:
            return Edited(request)
        contents = history.with_turns(_changed_turns(history, cleared)).turns
        return Edited(replace(request, contents=contents), len(cleared), (*notes, f"context.{self.name}"))


def _uses(history: History, position: int, rules: ClearingRules) -> Iterator[_ToolUse]:
    """The tool uses whose results are in this turn, in their order."""
    results = _places(history.turns[position], FunctionResponse)
    calls = _places(history.turns[position - 1], FunctionCall) if results else []
    for call, result in zip(calls, results, strict=False):
        yield _use((position - 1, call), (position, result), history, rules)


def _places(turn: Content, kind: type) -> list[int]:
    return [place for place, part in enumerate(turn.parts) if isinstance(part.data, kind)]


def _use(
    call_at: tuple[int, int], result_at: tuple[int, int], history: History, rules: ClearingRules
) -> _ToolUse:
    call = history.turns[call_at[0]].parts[call_at[1]]
    result = history.turns[result_at[0]].parts[result_at[1]]
    assert isinstance(call.data, FunctionCall)
    assert isinstance(result.data, FunctionResponse)
    name = call.data.name
    response = {"removed": f"The result of {name} was removed to save space."}
    cleared = replace(result, data=replace(result.data, response=response, media=()))
    without_input = replace(call, data=replace(call.data, args={})) if call.data.args else call
    shown = without_input if rules.clears_inputs_of(name) else call
    before, after = part_tokens(call) + part_tokens(result), part_tokens(shown) + part_tokens(cleared)
    saved = 0 if name in rules.exclude_tools else max(before - after, 0)
    return _ToolUse(call_at, result_at, shown, cleared, saved)


def _cleared(history: History, uses: list[_ToolUse], rules: ClearingRules) -> int:
    """How many of the oldest tool uses are cleared after all requests of the conversation."""
    saved = [0, *accumulate(use.saved for use in uses)]  # by the first uses
    clearable = [0, *accumulate(use.saved > 0 for use in uses)]  # of the first uses
    known, cleared, size = 0, 0, history.fixed
    for position, turn in enumerate(history.turns):
        size += history.sizes[position]
        if turn.role != USER:
            continue
        while known < len(uses) and uses[known].result_at[0] <= position:
            known += 1
        wanted = known - rules.keep
        tokens, tool_uses = size - saved[cleared], clearable[known] - clearable[cleared]
        if wanted > cleared and _is_due(rules, tokens, tool_uses):
            enough = saved[wanted] - saved[cleared] >= rules.clear_at_least
            cleared = wanted if enough else cleared
    return cleared


def _is_due(rules: ClearingRules, tokens: int, tool_uses: int) -> bool:
    if rules.tool_uses is not None:
        return tool_uses > rules.tool_uses
    return rules.input_tokens is not None and tokens > rules.input_tokens


def _changed_turns(history: History, cleared: list[_ToolUse]) -> dict[int, Content]:
    parts: dict[int, list[Part]] = {}
    for use in cleared:
        for (turn, place), part in ((use.call_at, use.call), (use.result_at, use.result)):
            parts.setdefault(turn, list(history.turns[turn].parts))[place] = part
    return {turn: replace(history.turns[turn], parts=tuple(changed)) for turn, changed in parts.items()}
