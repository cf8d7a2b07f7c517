"""The state of a rate limit in OpenAI's headers."""

from __future__ import annotations

import math

from bridge.rate_limit_status import RateLimitStatus


def limit_headers(status: RateLimitStatus) -> dict[str, str]:
    unit, limit, remaining, reset, _ = status
    return {
        f"x-ratelimit-limit-{unit}": str(limit),
        f"x-ratelimit-remaining-{unit}": str(remaining),
        f"x-ratelimit-reset-{unit}": _duration(math.ceil(reset)),
    }


def _duration(seconds: int) -> str:
    """A duration in OpenAI's format: 1h2m3s, without leading zero units."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}h{minutes}m{seconds}s" if hours else f"{minutes}m{seconds}s"
    return text if hours or minutes else f"{seconds}s"
