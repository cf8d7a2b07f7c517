"""The cost of a request."""

from __future__ import annotations

from bridge.gemini.service_tier import STANDARD
from bridge.observe.record import Record
from bridge.settings.prices import PriceTable


def cost_of(record: Record, prices: PriceTable) -> float | None:
    """The cost of a request that has ended, at today's prices; None if the price is not known."""
    if record.usage is None or not record.usage.raw:
        return 0.0
    models = filter(None, (record.model_version, record.upstream_model))  # the first one with a price is used
    return prices.cost_of(record.usage, *models, tier=record.service_tier or STANDARD)
