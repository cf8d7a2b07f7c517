"""Selects the models for a request: its key must allow them, and under a cost limit they need a price.

A choice is a model with its fallbacks, which are used while the model is overloaded. The next choice is
used if the upstream does not have the model of the choice before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridge.errors import NotAllowed, UnknownModel
from bridge.exchange.model_directory import ModelDirectory
from bridge.observe.record import Record
from bridge.protocols.base import Caller
from bridge.settings.prices import PriceTable

LONGEST_SHOWN = 100  #: characters of a model name in a message, because the client chose the name

Choices = list[list[str]]


def permitted_choices(name: str, caller: Caller, models: ModelDirectory) -> Choices:
    """Raises NotAllowed if the caller may not use the first choice."""
    choices = models.choices(name)
    caller.permit(name, choices[0])

    def allowed(candidates: Iterable[str]) -> list[str]:
        return [model for model in candidates if _may_use(caller, name, model)]

    return [[model, *allowed(models.table.capabilities(model).fallbacks)] for model in allowed(choices)]


def _may_use(caller: Caller, name: str, model: str) -> bool:
    try:
        caller.permit(name, model)
    except NotAllowed:
        return False
    return True


def priced_choices(choices: Sequence[list[str]], tier: str, prices: PriceTable, record: Record) -> Choices:
    """Raises NotAllowed if the first choice has no price, because the request asked for that model."""
    first = choices[0][0]
    if not prices.knows(first, tier):
        of_tier = f" in the service tier {tier[:LONGEST_SHOWN]!r}" if prices.knows(first) else ""
        raise NotAllowed(
            f"The model {first[:LONGEST_SHOWN]!r} has no known price here{of_tier}, and a limit on cost "
            "applies to this request. The administrator can add its price to config/prices.toml, or set "
            'limits.unpriced to "allow".',
            param="model",
            rule="limits.unpriced",
        )
    priced = [[model for model in choice if prices.knows(model, tier)] for choice in choices]
    record.note(["fallback.unpriced"] * (sum(map(len, choices)) - sum(map(len, priced))))
    return [choice for choice in priced if choice]


def unknown_model(asked: str, sent: str | None) -> UnknownModel:
    """The error for a model that the upstream does not have, with advice for client and administrator."""
    if asked == sent:
        text = (
            f"The upstream has no model {asked!r}; GET /v1/models lists its models, "
            "and an [[alias]] in config/models.toml can map the name to one of them"
        )
    else:
        text = f"config/models.toml maps {asked!r} to {sent!r}, and the upstream does not have that model"
    return UnknownModel(text, param="model")
