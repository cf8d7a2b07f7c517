"""Connects the experiments with the application. It is imported only if there is an experiment."""

from __future__ import annotations

from collections.abc import Callable

from bridge.exchange.experiment_arms import Experiments
from bridge.exchange.services import Services
from bridge.exchange.shadow_arms import ShadowRunner, ShadowSide
from bridge.observe.record import Observer
from bridge.settings import Settings
from bridge.state.stores import Stores
from bridge.upstream import make_directory
from bridge.upstream.base import Upstream


def make_experiments(
    settings: Settings,
    stores: Stores,
    services: Services,
    default: Upstream | None,
    write_row: Observer,
    is_busy: Callable[[], bool],
) -> Experiments:
    """`default` replaces the upstream of the section [upstream]."""
    rows, prices = settings.experiments, settings.prices_in_force
    shadows = None
    if any(row.shadows for row in rows):
        side = ShadowSide(
            models=services.models,
            upstreams=make_directory(settings, default=default),
            signatures=services.signatures,
            ids_and_clock=services.ids_and_clock,
            prices=prices,
            usage=stores.usage,
            write_row=write_row,
            is_busy=is_busy,
        )
        shadows = ShadowRunner(side)
    return Experiments(rows, services.models, services.upstreams, services.prices, shadows)
