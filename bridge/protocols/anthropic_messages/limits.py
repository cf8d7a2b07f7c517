"""The state of a rate limit in Anthropic's headers."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from bridge.rate_limit_status import RateLimitStatus


def limit_headers(status: RateLimitStatus) -> dict[str, str]:
    unit, limit, remaining, reset, now = status
    reset_time = datetime.fromtimestamp(math.ceil(now + reset), UTC)
    return {
        f"anthropic-ratelimit-{unit}-limit": str(limit),
        f"anthropic-ratelimit-{unit}-remaining": str(remaining),
        f"anthropic-ratelimit-{unit}-reset": reset_time.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
