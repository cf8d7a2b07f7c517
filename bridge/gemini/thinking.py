"""The client's wish for thinking, in the words that the model understands.

A model takes a budget of tokens or a level, never both in one request, and some take neither:
https://ai.google.dev/gemini-api/docs/thinking
"""

from __future__ import annotations

from typing import Any

from bridge.gemini.model_capabilities import LEVELS, ModelCapabilities
from bridge.gemini.types import Thinking

AUTOMATIC = -1  #: as a budget: the model decides

#: Clients know higher efforts than Gemini does.
LEVEL_OF_EFFORT = {level: level for level in LEVELS} | {"xhigh": "high", "max": "high"}

#: The lowest level has no number here: it is the least that the model takes.
BUDGET_OF_LEVEL = {"low": 1024, "medium": 8192, "high": 24576}

MAX_BUDGET_FOR_LOW = 2048
MAX_BUDGET_FOR_MEDIUM = 12288


def thinking_config(capabilities: ModelCapabilities, wish: Thinking | None) -> dict[str, Any] | None:
    """The value of `generationConfig.thinkingConfig`; None where the model would refuse any."""
    if capabilities.thinking_budget is None and not capabilities.thinking_levels:
        return None
    if wish is None:
        return {"includeThoughts": True}
    # Gemini refuses to include thoughts where thinking is off.
    config: dict[str, Any] = {"includeThoughts": wish.show and not _is_off(wish)}
    if capabilities.thinking_levels:
        level = _level(capabilities.thinking_levels, wish)
        return config if level is None else config | {"thinkingLevel": level.upper()}
    budget = _budget(capabilities, wish)
    return config if budget is None else config | {"thinkingBudget": budget}


def _is_off(wish: Thinking) -> bool:
    return wish.budget == 0 if wish.budget is not None else wish.effort == "none"


def _budget(capabilities: ModelCapabilities, wish: Thinking) -> int | None:
    assert capabilities.thinking_budget is not None
    least, most = capabilities.thinking_budget
    if _is_off(wish):
        return 0 if capabilities.thinking_can_be_off else least
    if wish.budget == AUTOMATIC:
        return AUTOMATIC
    if wish.budget is not None:
        return min(max(wish.budget, least), most)
    level = LEVEL_OF_EFFORT.get(wish.effort or "")
    return None if level is None else min(max(BUDGET_OF_LEVEL.get(level, least), least), most)


def _level(allowed: tuple[str, ...], wish: Thinking) -> str | None:
    if _is_off(wish):
        return min(allowed, key=LEVELS.index)
    if wish.budget is not None:
        wanted = _level_of_budget(wish.budget)
    else:
        wanted = LEVEL_OF_EFFORT.get(wish.effort or "")
    return None if wanted is None else _nearest(allowed, wanted)


def _level_of_budget(budget: int) -> str | None:
    if budget == AUTOMATIC:
        return None
    if budget <= MAX_BUDGET_FOR_LOW:
        return "low"
    return "medium" if budget <= MAX_BUDGET_FOR_MEDIUM else "high"


def _nearest(allowed: tuple[str, ...], wanted: str) -> str:
    """Of two equally near the higher: a model without `medium` thinks rather too much than too little."""
    place = LEVELS.index(wanted)
    return min(allowed, key=lambda level: (abs(LEVELS.index(level) - place), -LEVELS.index(level)))
