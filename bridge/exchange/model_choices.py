"""Which models may serve a request: those that its key may use, and that a limit on cost can be kept with.

A choice is a model with the fallbacks that are asked while it is overloaded. The next choice is asked where
the upstream does not have the model of the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridge.errors import NotAllowed
from bridge.exchange.model_directory import ModelDirectory
from bridge.observe.record import Record
from bridge.protocols.base import Caller
from bridge.settings.prices import PriceTable

LONGEST_SHOWN = 100  #: of a model name in a message; clients choose these

Choices = list[list[str]]


def permitted_choices(name: str, caller: Caller, models: ModelDirectory) -> Choices:
    """Raises NotAllowed where the caller may not use the first choice."""
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
    """Raises NotAllowed where the first choice has no price: the request asked for it."""
    first = choices[0][0]
    if not prices.knows(first, tier):
        of_tier = f" in the service tier {tier[:LONGEST_SHOWN]!r}" if prices.knows(first) else ""
        raise NotAllowed(
            f"The model {first[:LONGEST_SHOWN]!r} has no known price here{of_tier}, and a limit on cost "
            "applies to this request. The administrator can add a row for it in config/prices.toml, or set "
            'limits.unpriced to "allow".',
            param="model",
            rule="limits.unpriced",
        )
    priced = [[model for model in choice if prices.knows(model, tier)] for choice in choices]
    record.note(["fallback.unpriced"] * (sum(map(len, choices)) - sum(map(len, priced))))
    return [choice for choice in priced if choice]
