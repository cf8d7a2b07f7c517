"""Counts the tokens of a request."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from bridge.errors import UnknownModel
from bridge.exchange.adapting import USAGE_ESTIMATED, adapted
from bridge.exchange.losses import RequestLosses
from bridge.exchange.model_choices import permitted_choices
from bridge.exchange.services import Services
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.guards.guard_runner import GuardRunner
from bridge.observe.record import Record
from bridge.protocols.base import Caller, TokenCounting
from bridge.protocols.json_reading import reject_deep_nesting
from bridge.settings.routes import Target


def count_tokens(
    counting: TokenCounting, body: JsonObject, caller: Caller, services: Services, record: Record
) -> int:
    with reject_deep_nesting():
        asked = counting.to_gemini(body, caller)
    record.model = asked.request.model
    guards = GuardRunner(services.guards, record.request_id)
    guarded = guards.for_token_count(asked.request)
    request = replace(services.context.for_token_count(guarded), service_tier=None)
    losses = RequestLosses(caller, record)
    choices = permitted_choices(record.model, caller, services.models)
    losses.of_request(asked.losses)
    serving = services.upstreams.serving(choices)
    request = services.media.fetched(request, serving, caller.book_memory, record)

    def count(target: Target) -> int:
        services.note_target(record, target)
        return counted_by_upstream(request, target, caller, services, record, losses)

    targets = [target for choice in choices for target in choice if target.model == choice[0].model]
    for target, following in pairwise(targets):
        try:
            return count(target)
        except UnknownModel:
            services.models.model_gone(target, following)
    return count(targets[-1])


def counted_by_upstream(
    request: GenerateRequest,
    target: Target,
    caller: Caller,
    services: Services,
    record: Record,
    losses: RequestLosses,
) -> int:
    """The upstream's count of the request as it would be sent."""
    prepared = adapted(request, target, caller, services, record)
    repaired, learnt = services.models.without_known_problems(prepared.request, target)
    losses.of_attempt((*prepared.adapter.notes, *learnt))
    if prepared.upstream.estimates_counts:
        record.note([USAGE_ESTIMATED])
    with record.waiting():
        return prepared.upstream.count_tokens(repaired)
