"""The state of a client's rate limit. Each protocol writes it into its vendor's headers."""

from __future__ import annotations

from typing import NamedTuple


class RateLimitStatus(NamedTuple):
    unit: str  #: `requests` or `tokens`
    limit: int
    remaining: int
    reset: float  #: seconds until the whole limit is available again
    now: float  #: Unix time
