"""What a limit leaves, in Anthropic's headers."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from bridge.rate_limit_status import RateLimitStatus


def limit_headers(allowance: RateLimitStatus) -> dict[str, str]:
    counted, limit, remaining, reset, now = allowance
    full = datetime.fromtimestamp(math.ceil(now + reset), UTC)
    return {
        f"anthropic-ratelimit-{counted}-limit": str(limit),
        f"anthropic-ratelimit-{counted}-remaining": str(remaining),
        f"anthropic-ratelimit-{counted}-reset": full.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
