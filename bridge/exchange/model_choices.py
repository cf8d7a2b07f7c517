"""Selects the targets for a request: its key must allow them, and under a cost limit they need a price.

A choice is a model at each upstream that serves it, with its fallbacks, which are used while the model is
overloaded or its upstream cannot be reached. The next choice is used if no upstream has the model of the
choice before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bridge.errors import NotAllowed, UnknownModel
from bridge.exchange.model_directory import LONGEST_SHOWN, ModelDirectory
from bridge.gemini.types import GenerateRequest
from bridge.observe.record import Record
from bridge.protocols.base import Caller
from bridge.settings.prices import PriceTable
from bridge.settings.routes import Target

Choices = list[list[Target]]


class EnteredArm(NamedTuple):
    """What the arm of an experiment changes in a request."""

    models: tuple[Target, ...] = ()  #: in place of the models of the alias; empty: those of the alias
    thinking: str = ""  #: the thinking level in place of the client's
    #: Called with the request that is sent and its owner, if shadows may get copies of it.
    offer: Callable[[GenerateRequest, str], None] | None = None


NO_ARM = EnteredArm()


def permitted_choices(
    name: str,
    caller: Caller,
    models: ModelDirectory,
    conversation: str = "",
    instead: tuple[Target, ...] = (),
) -> Choices:
    """Raises NotAllowed if the caller may not use the first choice. `instead`: the models of an arm."""
    choices = models.choices(name, instead)
    caller.permit(name, choices[0].model)

    def routed(candidates: Iterable[Target]) -> list[Target]:
        allowed = (target for target in candidates if _may_use(caller, name, target.model))
        return [each for target in allowed for each in models.routed(target, conversation)]

    return [
        list(dict.fromkeys(routed((target, *models.table.fallbacks(target.model)))))
        for target in choices
        if _may_use(caller, name, target.model)
    ]


def _may_use(caller: Caller, name: str, model: str) -> bool:
    try:
        caller.permit(name, model)
    except NotAllowed:
        return False
    return True


def priced_choices(choices: Sequence[list[Target]], tier: str, prices: PriceTable, record: Record) -> Choices:
    """Raises NotAllowed if the first choice has no price, because the request asked for that model."""
    first = choices[0][0]
    if not prices.knows(*first.price_names, tier=tier):
        has_other_tiers = prices.knows(*first.price_names)
        of_tier = f" in the service tier {tier[:LONGEST_SHOWN]!r}" if has_other_tiers else ""
        raise NotAllowed(
            f"The model {str(first)[:LONGEST_SHOWN]!r} has no known price here{of_tier}, and a limit on cost "
            "applies to this request. The administrator can add its price to config/prices.toml, or set "
            'limits.unpriced to "allow".',
            param="model",
            rule="limits.unpriced",
        )
    priced = [
        [target for target in choice if prices.knows(*target.price_names, tier=tier)] for choice in choices
    ]
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
