"""The switches that servers have for thinking: each function writes the fields of one kind of server.

`budget` is Gemini's number of thinking tokens: 0 turns thinking off, and AUTOMATIC lets the model decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge.gemini.thinking import AUTOMATIC, MAX_BUDGET_FOR_LOW, MAX_BUDGET_FOR_MEDIUM
from bridge.gemini.types import JsonObject

Fields = dict[str, Any]
#: From the budget to the fields of the request; None if the server has no switch.
Switch = Callable[[int], Fields]

LEAST, LARGEST = 0, 1 << 17  #: the budgets that such an upstream accepts

_BUDGET_OF_LEVEL = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24576}


def wanted_budget(config: JsonObject) -> int:
    """The budget in `thinkingConfig`, whose client may have written a level."""
    budget = config.get("thinkingBudget")
    if isinstance(budget, int):
        return budget
    return _BUDGET_OF_LEVEL.get(str(config.get("thinkingLevel", "")).lower(), AUTOMATIC)


def effort_of(budget: int) -> str:
    if budget == 0:
        return "none"
    if budget <= MAX_BUDGET_FOR_LOW:
        return "low"
    return "medium" if budget <= MAX_BUDGET_FOR_MEDIUM else "high"


def by_effort(budget: int) -> Fields:
    """OpenAI, Azure, LM Studio."""
    return {} if budget == AUTOMATIC else {"reasoning_effort": effort_of(budget)}


def by_high_effort(budget: int) -> Fields:
    """Mistral has only these two."""
    return {} if budget == AUTOMATIC else {"reasoning_effort": "none" if budget == 0 else "high"}


def by_template(budget: int) -> Fields:
    """vLLM, SGLang and llama.cpp pass these on to the chat template; each model reads its own name."""
    if budget == AUTOMATIC:
        return {}
    return {"chat_template_kwargs": {"enable_thinking": budget != 0, "thinking": budget != 0}}


def by_flag(budget: int) -> Fields:
    """DashScope: a budget of its own beside the flag."""
    if budget == AUTOMATIC:
        return {}
    return {"enable_thinking": True, "thinking_budget": budget} if budget else {"enable_thinking": False}


def by_type(budget: int) -> Fields:
    """DeepSeek: the type of thinking, with the effort beside it."""
    if budget == AUTOMATIC:
        return {}
    if budget == 0:
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}


def by_reasoning_object(budget: int) -> Fields:
    """OpenRouter, which translates it for the provider."""
    if budget == AUTOMATIC:
        return {}
    return {"reasoning": {"max_tokens": budget} if budget else {"enabled": False}}
