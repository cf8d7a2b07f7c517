"""Converts the client's thinking settings to the field that the model accepts.

A model accepts a budget of tokens or a level, never both in one request, and some accept neither:
https://ai.google.dev/gemini-api/docs/thinking
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bridge.gemini.model_capabilities import LEVELS, ModelCapabilities
from bridge.gemini.types import GenerateRequest, JsonObject, Thinking

AUTOMATIC = -1  #: this budget lets the model decide

AMOUNTS = ("thinkingLevel", "thinkingBudget")  #: a model accepts one of these fields at most

#: Clients know higher efforts than Gemini.
LEVEL_OF_EFFORT = {level: level for level in LEVELS} | {"xhigh": "high", "max": "high"}

#: `minimal` is missing: it is the model's smallest budget.
BUDGET_OF_LEVEL = {"low": 1024, "medium": 8192, "high": 24576}

MAX_BUDGET_FOR_LOW = 2048
MAX_BUDGET_FOR_MEDIUM = 12288


def thinking_config(capabilities: ModelCapabilities, thinking: Thinking | None) -> dict[str, Any] | None:
    """The value of `generationConfig.thinkingConfig`, or None if the model rejects the field."""
    if capabilities.thinking_budget is None and not capabilities.thinking_levels:
        return None
    if thinking is None:
        return {"includeThoughts": True}
    # Gemini rejects includeThoughts if thinking is off.
    config: dict[str, Any] = {"includeThoughts": thinking.show and not is_off(thinking)}
    if capabilities.thinking_levels:
        level = _level(capabilities.thinking_levels, thinking)
        return config if level is None else config | {"thinkingLevel": level.upper()}
    budget = _budget(capabilities, thinking)
    return config if budget is None else config | {"thinkingBudget": budget}


def with_level(request: GenerateRequest, level: str) -> GenerateRequest:
    """The request with this effort in place of the client's. Whether thoughts are shown stays the same."""
    show = request.thinking is None or request.thinking.show
    return replace(request, thinking=Thinking(level, show=show))


def loses_amount(thinking: Thinking | None, config: JsonObject | None) -> bool:
    """Whether the client asks for an amount of thinking, and the configuration has none."""
    if thinking is None or is_off(thinking):
        return False
    asks = thinking.effort is not None if thinking.budget is None else thinking.budget != AUTOMATIC
    return asks and (config or {}).keys().isdisjoint(AMOUNTS)


def is_off(thinking: Thinking) -> bool:
    return thinking.budget == 0 if thinking.budget is not None else thinking.effort == "none"


def _budget(capabilities: ModelCapabilities, thinking: Thinking) -> int | None:
    assert capabilities.thinking_budget is not None
    least, most = capabilities.thinking_budget
    if is_off(thinking):
        return 0 if capabilities.thinking_can_be_off else least
    if thinking.budget == AUTOMATIC:
        return AUTOMATIC
    if thinking.budget is not None:
        return min(max(thinking.budget, least), most)
    level = LEVEL_OF_EFFORT.get(thinking.effort or "")
    return None if level is None else min(max(BUDGET_OF_LEVEL.get(level, least), least), most)


def _level(allowed: tuple[str, ...], thinking: Thinking) -> str | None:
    if is_off(thinking):
        return min(allowed, key=LEVELS.index)
    if thinking.budget is not None:
        wanted = _level_of_budget(thinking.budget)
    else:
        wanted = LEVEL_OF_EFFORT.get(thinking.effort or "")
    return None if wanted is None else _nearest(allowed, wanted)


def _level_of_budget(budget: int) -> str | None:
    if budget == AUTOMATIC:
        return None
    if budget <= MAX_BUDGET_FOR_LOW:
        return "low"
    return "medium" if budget <= MAX_BUDGET_FOR_MEDIUM else "high"


def _nearest(allowed: tuple[str, ...], wanted: str) -> str:
    """The nearest allowed level. Of two equally near levels the higher one: too much thinking is the safer
    error."""
    place = LEVELS.index(wanted)
    return min(allowed, key=lambda level: (abs(LEVELS.index(level) - place), -LEVELS.index(level)))
