"""The cost of a request."""

from __future__ import annotations

from bridge.gemini.service_tier import STANDARD
from bridge.observe.record import Record
from bridge.settings.prices import PriceTable
from bridge.settings.routes import Target
from bridge.settings.upstreams import DEFAULT


def cost_of(record: Record, prices: PriceTable) -> float | None:
    """The cost of a request that has ended, at today's prices; None if the price is not known."""
    if record.usage is None or not record.usage.raw:
        return 0.0
    return prices.cost_of(record.usage, *_names(record), tier=record.service_tier or STANDARD)


def _names(record: Record) -> list[str]:
    """The names of the model, of which the first one with a price is used: those with the upstream first."""
    models = list(filter(None, (record.model_version, record.upstream_model)))
    if record.upstream in (None, DEFAULT):
        return models
    return [str(Target(record.upstream, model)) for model in models] + models
