"""Prepares a client's request for one model of one upstream."""

from __future__ import annotations

from bridge.exchange.in_text import before_adapting, prepared_in_text
from bridge.exchange.services import Services
from bridge.gemini.model_adapter import adapt_request
from bridge.gemini.types import GenerateRequest
from bridge.observe.record import Record
from bridge.protocols.base import Caller
from bridge.protocols.json_reading import reject_deep_nesting
from bridge.settings.routes import Target
from bridge.upstream.prepared_attempt import PreparedAttempt

USAGE_ESTIMATED = "usage.estimated"  #: the note for tokens that the upstream did not count


def adapted(
    request: GenerateRequest, target: Target, caller: Caller, services: Services, record: Record
) -> PreparedAttempt:
    capabilities = services.models.capabilities(target)
    row = services.upstreams.rows[target.upstream]
    request, capabilities = before_adapting(request, capabilities, row)
    signatures = services.signatures.of(caller.owner)
    with reject_deep_nesting():
        changed = adapt_request(
            request, target.model, capabilities, signatures, services.ids_and_clock.new_id
        )
        upstream = services.cache.in_front_of(
            services.upstreams[target.upstream], row, capabilities.cache, request, caller, record
        )
        prepared = PreparedAttempt(target, upstream, *changed)
        return prepared_in_text(prepared, request, capabilities, record)
