"""Checks the prices: whether each model in use has a price, and when the next price changes."""

from __future__ import annotations

from datetime import timedelta

from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.settings import Settings
from bridge.settings.models import today
from bridge.state.errors import StorageError
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores
from bridge.state.usage_store import UsageQuery

DAYS_LOOKED_AT = 7
MOST_NAMED = 10


def check_prices(installation: Installation) -> Finding:
    settings = installation.settings
    used = [model for model in _used(settings) if not _is_priced(settings, model)]
    unpriced = list(dict.fromkeys((*settings.unpriced_models, *used)))
    if not unpriced:
        return green(f"every configured or used model has a price{_next_change(settings)}")
    level = yellow
    if settings.limits.cost_per_day and settings.limits.unpriced == "refuse":
        level = red  # the requests of all clients to these models are rejected
    return level(
        f"no price for {_named(unpriced)}: {settings.unpriced_effect}",
        "add a row to prices.toml, then reload",
    )


def _is_priced(settings: Settings, model: str) -> bool:
    return settings.prices_in_force.knows(*settings.models.routes.target(model).price_names)


def _used(settings: Settings) -> list[str]:
    """The upstream's models without a price that were used in the last days."""
    day = today()
    query = UsageQuery(("model",), day - timedelta(days=DAYS_LOOKED_AT - 1), day)
    try:
        groups = open_stores(settings, PATIENT).usage.sums(query)
    except StorageError:  # the state files have a check of their own
        return []
    return [group.names[0] for group in groups if group.sums.unpriced]


def _named(models: list[str]) -> str:
    """The names for a terminal. Clients choose some of them, so control characters are replaced."""
    shown = ["".join(sign if sign.isprintable() else "?" for sign in model)[:60] for model in models]
    return ", ".join(shown[:MOST_NAMED]) + (" and more" if len(shown) > MOST_NAMED else "")


def _next_change(settings: Settings) -> str:
    coming = settings.prices_in_force.next_change(today())
    return "" if coming is None else f"; the price of {', '.join(coming.match)} changes on {coming.start}"
