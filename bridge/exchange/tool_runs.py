"""Answers in which the bridge itself calls tools: those of agents, and those with servers of the request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bridge.exchange.hosted_servers import losses_of
from bridge.exchange.losses import RequestLosses
from bridge.exchange.services import Services
from bridge.gemini.hosted_servers import HostedRequest
from bridge.gemini.types import GenerateRequest
from bridge.observe.record import Record
from bridge.protocols.base import Caller, ConvertedRequest
from bridge.state.agent_run_store import RunStarter
from bridge.upstream.base import AnswerStream

#: Asks the model once, for this caller.
AskForCaller = Callable[[GenerateRequest, Caller], AnswerStream]


def agent_answer(
    asked: ConvertedRequest,
    ask: AskForCaller,
    caller: Caller,
    services: Services,
    record: Record,
    losses: RequestLosses,
) -> AnswerStream:
    """The answer of an agent. Who may use an agent may use it with the model that the administrator chose."""
    lost = losses_of(asked.hosted.servers) if asked.hosted else ()
    losses.of_request((*asked.losses, *lost, *services.agents.losses(asked.request)))
    inner = replace(caller, permit=lambda _name, _model: None)
    return services.agents.answer(
        asked.request,
        lambda request: ask(request, inner),
        services.ids_and_clock.new_id,
        RunStarter(record.key, record.request_id),
        caller.spent,
    )


def hosted_answer(
    asked: ConvertedRequest,
    hosted: HostedRequest,
    ask: AskForCaller,
    caller: Caller,
    services: Services,
    losses: RequestLosses,
) -> AnswerStream:
    """An answer with tools of servers that the request names, as far as the administrator allows them."""
    servers, lost = services.hosted.found(hosted)
    losses.of_request((*asked.losses, *lost))
    if not servers:
        return ask(asked.request, caller)
    return services.hosted.answer(
        asked.request,
        hosted,
        servers,
        lambda request: ask(request, caller),
        services.ids_and_clock.new_id,
        caller.spent,
    )
