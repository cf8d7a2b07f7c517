"""The cost of a request."""

from __future__ import annotations

from bridge.gemini.service_tier import STANDARD
from bridge.gemini.types import Usage
from bridge.observe.record import Record
from bridge.settings.prices import PriceTable
from bridge.settings.routes import Target
from bridge.settings.upstreams import DEFAULT


def cost_of(record: Record, prices: PriceTable) -> float | None:
    """The cost of a request that has ended, at today's prices; None if the price is not known."""
    return _cost(record, record.usage, prices)


def saved_cost_of(record: Record, prices: PriceTable) -> float:
    """What the answer of the request cache would have cost; 0 if the price is not known."""
    return _cost(record, record.saved_usage, prices) or 0.0


def _cost(record: Record, usage: Usage | None, prices: PriceTable) -> float | None:
    if usage is None or not usage.raw:
        return 0.0
    return prices.cost_of(usage, *_names(record), tier=record.service_tier or STANDARD)


def _names(record: Record) -> list[str]:
    """The names of the model, of which the first one with a price is used: those with the upstream first."""
    models = list(filter(None, (record.model_version, record.upstream_model)))
    if record.upstream in (None, DEFAULT):
        return models
    return [str(Target(record.upstream, model)) for model in models] + models
