"""What a limit leaves, in OpenAI's headers."""

from __future__ import annotations

import math

from bridge.rate_limit_status import RateLimitStatus


def limit_headers(allowance: RateLimitStatus) -> dict[str, str]:
    counted, limit, remaining, reset, _ = allowance
    return {
        f"x-ratelimit-limit-{counted}": str(limit),
        f"x-ratelimit-remaining-{counted}": str(remaining),
        f"x-ratelimit-reset-{counted}": _duration(math.ceil(reset)),
    }


def _duration(seconds: int) -> str:
    """As OpenAI writes it: 1h2m3s, without the units that come to nothing at the front."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    written = f"{hours}h{minutes}m{seconds}s" if hours else f"{minutes}m{seconds}s"
    return written if hours or minutes else f"{seconds}s"
