"""The client's thinking settings for models with a budget, with levels, and with neither."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.gemini.model_capabilities import LEVELS, ModelCapabilities
from bridge.gemini.thinking import thinking_config
from bridge.gemini.types import Thinking

STEADY = ModelCapabilities(thinking_budget=(128, 32768))
SWITCHABLE = ModelCapabilities(thinking_budget=(512, 20000), thinking_can_be_off=True)
FOUR_LEVELS = ModelCapabilities(thinking_levels=LEVELS)
TWO_LEVELS = ModelCapabilities(thinking_levels=("low", "high"))


@pytest.mark.parametrize("wish", [None, Thinking(), Thinking(effort="high"), Thinking(budget=0)])
def test_a_model_that_does_not_think_gets_no_config(wish: Thinking | None) -> None:
    assert thinking_config(ModelCapabilities(), wish) is None


@pytest.mark.parametrize("capabilities", [STEADY, SWITCHABLE, FOUR_LEVELS, TWO_LEVELS])
def test_without_a_thinking_setting_thoughts_are_shown_at_the_models_default(
    capabilities: ModelCapabilities,
) -> None:
    assert thinking_config(capabilities, None) == {"includeThoughts": True}
    assert thinking_config(capabilities, Thinking()) == {"includeThoughts": True}
    assert thinking_config(capabilities, Thinking(show=False)) == {"includeThoughts": False}


@pytest.mark.parametrize(
    ("capabilities", "wish", "budget", "shown"),
    [
        (STEADY, Thinking(effort="minimal"), 128, True),
        (STEADY, Thinking(effort="low"), 1024, True),
        (STEADY, Thinking(effort="medium"), 8192, True),
        (STEADY, Thinking(effort="high"), 24576, True),
        (STEADY, Thinking(effort="xhigh"), 24576, True),
        (STEADY, Thinking(effort="max"), 24576, True),
        (STEADY, Thinking(effort="high", show=False), 24576, False),
        (STEADY, Thinking(effort="none"), 128, False),
        (STEADY, Thinking(budget=0), 128, False),
        (STEADY, Thinking(budget=5000), 5000, True),
        (STEADY, Thinking(budget=1), 128, True),
        (STEADY, Thinking(budget=99999), 32768, True),
        (STEADY, Thinking(budget=-1), -1, True),
        (STEADY, Thinking(budget=-7), 128, True),
        (STEADY, Thinking(effort="none", budget=5000), 5000, True),
        (SWITCHABLE, Thinking(effort="none"), 0, False),
        (SWITCHABLE, Thinking(budget=0), 0, False),
        (SWITCHABLE, Thinking(effort="minimal"), 512, True),
        (SWITCHABLE, Thinking(effort="high"), 20000, True),
    ],
)
def test_a_model_with_a_budget_gets_an_allowed_budget(
    capabilities: ModelCapabilities, wish: Thinking, budget: int, shown: bool
) -> None:
    assert thinking_config(capabilities, wish) == {"includeThoughts": shown, "thinkingBudget": budget}


@pytest.mark.parametrize(
    ("capabilities", "wish", "level", "shown"),
    [
        (FOUR_LEVELS, Thinking(effort="minimal"), "MINIMAL", True),
        (FOUR_LEVELS, Thinking(effort="low"), "LOW", True),
        (FOUR_LEVELS, Thinking(effort="medium"), "MEDIUM", True),
        (FOUR_LEVELS, Thinking(effort="high"), "HIGH", True),
        (FOUR_LEVELS, Thinking(effort="xhigh"), "HIGH", True),
        (FOUR_LEVELS, Thinking(effort="low", show=False), "LOW", False),
        (FOUR_LEVELS, Thinking(effort="none"), "MINIMAL", False),
        (FOUR_LEVELS, Thinking(budget=0), "MINIMAL", False),
        (FOUR_LEVELS, Thinking(budget=1), "LOW", True),
        (FOUR_LEVELS, Thinking(budget=2048), "LOW", True),
        (FOUR_LEVELS, Thinking(budget=2049), "MEDIUM", True),
        (FOUR_LEVELS, Thinking(budget=12288), "MEDIUM", True),
        (FOUR_LEVELS, Thinking(budget=12289), "HIGH", True),
        (FOUR_LEVELS, Thinking(effort="high", budget=1024), "LOW", True),
        (TWO_LEVELS, Thinking(effort="none"), "LOW", False),
        (TWO_LEVELS, Thinking(effort="minimal"), "LOW", True),
        (TWO_LEVELS, Thinking(effort="medium"), "HIGH", True),
        (TWO_LEVELS, Thinking(budget=8000), "HIGH", True),
        (ModelCapabilities(thinking_levels=("high", "low")), Thinking(effort="none"), "LOW", False),
    ],
)
def test_a_model_with_levels_gets_the_nearest_level(
    capabilities: ModelCapabilities, wish: Thinking, level: str, shown: bool
) -> None:
    assert thinking_config(capabilities, wish) == {"includeThoughts": shown, "thinkingLevel": level}


@pytest.mark.parametrize("wish", [Thinking(budget=-1), Thinking(effort="some-new-word")])
def test_thinking_without_a_depth_leaves_the_level_to_the_model(wish: Thinking) -> None:
    assert thinking_config(FOUR_LEVELS, wish) == {"includeThoughts": True}


EFFORTS = st.sampled_from([None, "none", *LEVELS, "xhigh", "max", "odd", ""])
WISHES = st.builds(Thinking, EFFORTS, st.none() | st.integers(-5, 100_000), st.booleans())


@given(wish=WISHES, capabilities=st.sampled_from([STEADY, SWITCHABLE, FOUR_LEVELS, TWO_LEVELS]))
def test_no_thinking_setting_makes_an_invalid_config(wish: Thinking, capabilities: ModelCapabilities) -> None:
    config: dict[str, Any] = thinking_config(capabilities, wish) or {}
    assert not {"thinkingBudget", "thinkingLevel"} <= set(config)
    if "thinkingLevel" in config:
        assert config["thinkingLevel"].lower() in capabilities.thinking_levels
    if "thinkingBudget" in config:
        assert capabilities.thinking_budget is not None
        least, most = capabilities.thinking_budget
        budget = config["thinkingBudget"]
        assert budget == -1 or least <= budget <= most or (budget == 0 and capabilities.thinking_can_be_off)
        assert budget != 0 or config["includeThoughts"] is False
