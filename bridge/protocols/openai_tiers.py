"""`service_tier` in OpenAI's two APIs: the requested tier, and the tier that the answer reports."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.gemini.service_tier import AUTO, FLEX, PRIORITY, STANDARD
from bridge.gemini.types import JsonObject

#: `fast` is OpenAI's second name for `priority`. Its answers never use it.
TIERS: Mapping[str, str] = {
    "auto": AUTO,
    "default": STANDARD,
    "flex": FLEX,
    "priority": PRIORITY,
    "fast": PRIORITY,
}


def requested_tier(body: JsonObject) -> str | None:
    requested = body.get("service_tier")
    return None if requested is None else TIERS[requested]


def tier_for_answer(served: str | None) -> str:
    return "default" if served in (None, STANDARD) else str(served)
