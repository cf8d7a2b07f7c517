"""Google's service tiers: the same model, sooner for more money or later for less.

A request names one in `serviceTier`; without it the standard one serves. An answer says in its usage which
one served it, and that may be another: Google serves what is too much for priority in the standard tier.
https://ai.google.dev/gemini-api/docs/optimization
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STANDARD = "standard"
FLEX = "flex"
PRIORITY = "priority"
SERVICE_TIERS = (STANDARD, FLEX, PRIORITY)

#: A client's wish, and none of Google's: the operator decides what is tried.
AUTO = "auto"

_PREFIX = "service_tier_"
#: Vertex AI says it in `trafficType`.
_BY_TRAFFIC = {"ON_DEMAND": STANDARD, "ON_DEMAND_FLEX": FLEX, "ON_DEMAND_PRIORITY": PRIORITY}


def normalise_tier(name: str) -> str:
    """`FLEX` and `SERVICE_TIER_FLEX` are older spellings of `flex`."""
    tier = name.lower().removeprefix(_PREFIX)
    return STANDARD if tier in ("", "unspecified") else tier


def tier_to_send(wish: str, auto: str) -> str | None:
    """What a request says. The standard tier needs no word, and not every upstream knows the word."""
    tier = auto if wish == AUTO else wish
    return None if tier == STANDARD else tier


def tier_from_usage(usage: Mapping[str, Any]) -> str | None:
    """The tier that served, where `usageMetadata` says it."""
    named = usage.get("serviceTier")
    if isinstance(named, str):
        return normalise_tier(named)[:32]
    traffic = usage.get("trafficType")
    return _BY_TRAFFIC.get(traffic) if isinstance(traffic, str) else None
