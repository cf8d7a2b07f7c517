"""`service_tier` in OpenAI's two APIs: what a request wishes for, and what its answer tells."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.gemini.service_tier import AUTO, FLEX, PRIORITY, STANDARD
from bridge.gemini.types import JsonObject

#: `fast` is OpenAI's second name for `priority`; its answers do not use it.
TIERS: Mapping[str, str] = {
    "auto": AUTO,
    "default": STANDARD,
    "flex": FLEX,
    "priority": PRIORITY,
    "fast": PRIORITY,
}


def requested_tier(body: JsonObject) -> str | None:
    wish = body.get("service_tier")
    return None if wish is None else TIERS[wish]


def tier_for_answer(served: str | None) -> str:
    return "default" if served in (None, STANDARD) else str(served)
