"""`truncation`: what happens to a conversation that does not fit into the window."""

from __future__ import annotations

from bridge.gemini.context_steps import LEADING_TURNS
from bridge.gemini.types import ContextWish, JsonObject

AUTO, DISABLED = "auto", "disabled"


def truncation_wishes(body: JsonObject) -> tuple[ContextWish, ...]:
    """With `auto` the oldest turns are dropped. With `disabled`, the default, the request fails."""
    return (ContextWish(LEADING_TURNS),) if body.get("truncation") == AUTO else ()
