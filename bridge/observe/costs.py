"""What a request has cost."""

from __future__ import annotations

from bridge.gemini.service_tier import STANDARD
from bridge.observe.record import Record
from bridge.settings.prices import PriceTable


def cost_of(record: Record, prices: PriceTable) -> float | None:
    """At today's prices, when the request has ended; None if the price is not known."""
    if record.usage is None or not record.usage.raw:
        return 0.0
    models = filter(None, (record.model_version, record.upstream_model))  # the first with a price counts
    return prices.cost_of(record.usage, *models, tier=record.service_tier or STANDARD)
