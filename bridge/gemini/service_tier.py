"""Google's service tiers: the same model, faster for more money or slower for less.

A request names a tier in `serviceTier`; the default is the standard tier. The usage of an answer names the
tier that served it, which may be another one: Google downgrades priority requests to the standard tier under
high load. https://ai.google.dev/gemini-api/docs/optimization
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STANDARD = "standard"
FLEX = "flex"
PRIORITY = "priority"
SERVICE_TIERS = (STANDARD, FLEX, PRIORITY)

#: A value of the client protocols, not of Google: the operator's settings choose the tier.
AUTO = "auto"

_PREFIX = "service_tier_"
#: Vertex AI reports the tier in `trafficType`.
_BY_TRAFFIC = {"ON_DEMAND": STANDARD, "ON_DEMAND_FLEX": FLEX, "ON_DEMAND_PRIORITY": PRIORITY}


def normalise_tier(name: str) -> str:
    """The tier in its current spelling: `FLEX` and `SERVICE_TIER_FLEX` are older spellings of `flex`."""
    tier = name.lower().removeprefix(_PREFIX)
    return STANDARD if tier in ("", "unspecified") else tier


def tier_to_send(requested: str, auto: str) -> str | None:
    """The value for `serviceTier`. The standard tier needs none, and some upstreams do not know the field."""
    tier = auto if requested == AUTO else requested
    return None if tier == STANDARD else tier


def tier_from_usage(usage: Mapping[str, Any]) -> str | None:
    """The tier that served the answer, if `usageMetadata` names it."""
    named = usage.get("serviceTier")
    if isinstance(named, str):
        return normalise_tier(named)[:32]
    traffic = usage.get("trafficType")
    return _BY_TRAFFIC.get(traffic) if isinstance(traffic, str) else None
