"""Counts the tokens of a request."""

from __future__ import annotations

from dataclasses import replace

from bridge.exchange.adapting import USAGE_ESTIMATED, adapted
from bridge.exchange.losses import RequestLosses
from bridge.exchange.model_choices import permitted_choices
from bridge.exchange.request_conversation import in_conversation
from bridge.exchange.services import Services
from bridge.exchange.unary_attempts import first_answer
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.guards.guard_runner import GuardRunner
from bridge.observe.record import Record
from bridge.protocols.base import Caller, CountedTokens, TokenCounting
from bridge.protocols.json_reading import reject_deep_nesting
from bridge.settings.routes import Target


def count_tokens(
    counting: TokenCounting, body: JsonObject, caller: Caller, services: Services, record: Record
) -> JsonObject:
    """The protocol's body with the tokens of the request after the context edits."""
    with reject_deep_nesting():
        asked = counting.to_gemini(body, caller)
    record.model = asked.request.model
    if services.experiments is not None:
        asked = in_conversation(asked, body, caller, record)
    arm = services.arm_of(asked.request, caller, record)
    guards = GuardRunner(services.guards, record.request_id)
    guarded = guards.for_token_count(asked.request)
    request = replace(guarded, service_tier=None)
    losses = RequestLosses(caller, record)
    choices = permitted_choices(record.model, caller, services.models, instead=arm.models)
    losses.of_request(asked.losses)
    serving = services.upstreams.serving(choices)
    request = services.media.fetched(request, serving, caller.book_memory, record)

    targets = [target for choice in choices for target in choice if target.model == choice[0].model]
    shown = services.context.for_token_count(request, targets[0].model, record)

    def count(target: Target) -> CountedTokens:
        services.note_target(record, target)
        tokens = counted_by_upstream(shown, target, caller, services, record, losses)
        if shown is request:
            return CountedTokens(tokens, tokens)
        return CountedTokens(tokens, counted_by_upstream(request, target, caller, services, record, losses))

    return counting.body(first_answer(targets, count, services, record), asked)


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
