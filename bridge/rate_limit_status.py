"""What a limit still leaves to a client, as every vendor tells it in its own headers. Knows nothing else."""

from __future__ import annotations

from typing import NamedTuple


class RateLimitStatus(NamedTuple):
    counted: str  #: requests or tokens
    limit: int
    remaining: int
    reset: float  #: seconds until the whole limit is there again
    now: float  #: seconds since 1970
