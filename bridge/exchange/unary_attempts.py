"""Asks one upstream after another for an answer that is not a stream: a token count or vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bridge.errors import BridgeError, UnknownModel
from bridge.exchange.services import Services
from bridge.observe.record import Record
from bridge.settings.routes import Target
from bridge.upstream.cooldowns import rest_model
from bridge.upstream.retries import MODEL_SPECIFIC, UPSTREAM_SPECIFIC

T = TypeVar("T")


def first_answer(targets: list[Target], ask: Callable[[Target], T], services: Services, record: Record) -> T:
    """The answer of the first target that gives one; the targets before it are removed. They are one model at
    several upstreams."""
    while len(targets) > 1:
        try:
            return ask(targets[0])
        except UnknownModel:
            services.models.model_gone(targets[0], targets[1])
        except (*MODEL_SPECIFIC, *UPSTREAM_SPECIFIC) as error:
            _remember(error, targets[0], services, record)
        targets.pop(0)
    return ask(targets[0])


def _remember(error: BridgeError, target: Target, services: Services, record: Record) -> None:
    """An upstream that is down needs a cool-down; a quota for such calls says nothing about answers."""
    if isinstance(error, UPSTREAM_SPECIFIC):
        rest_model(services.cooldowns, target, error)
    services.failures.failed(target.upstream, error.kind)
    record.upstream_errors.append((target.upstream, error.kind))
    record.note(["fallback"])
