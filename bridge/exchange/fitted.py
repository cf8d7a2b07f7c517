"""Makes a request fit into the window of the model that it is sent to."""

from __future__ import annotations

from bridge.exchange.losses import RequestLosses
from bridge.exchange.services import Services
from bridge.exchange.summaries import SummarySource
from bridge.exchange.token_counting import counted_by_upstream
from bridge.gemini.types import GenerateRequest
from bridge.observe.record import Record
from bridge.protocols.base import Caller
from bridge.settings.routes import Target


def fitted(
    request: GenerateRequest,
    target: Target,
    caller: Caller,
    services: Services,
    record: Record,
    losses: RequestLosses,
    summaries: SummarySource | None,
) -> GenerateRequest:
    """Raises ContextOverflow if the request cannot be made to fit, and SummaryNeeded if that needs a
    summary."""

    def count(shortened: GenerateRequest) -> int:
        return counted_by_upstream(shortened, target, caller, services, record, losses)

    capabilities = services.models.capabilities(target)
    return services.context.fitted(request, target.model, capabilities, count, record, summaries)
