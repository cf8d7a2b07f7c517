"""What the bridge would send for a client's request. The request is not sent, and no part of it leaves the
bridge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bridge.context.estimate import request_tokens
from bridge.exchange.context_fitting import ContextFitting
from bridge.exchange.exchange import open_exchange
from bridge.exchange.media_by_url import MediaByUrl
from bridge.exchange.services import Services
from bridge.exchange.summaries import SummarySource
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.gemini.wire import request_to_json
from bridge.observe.record import Record
from bridge.protocols.base import Caller, Protocol
from bridge.settings import Settings


@dataclass(frozen=True, slots=True)
class ExplainedRequest:
    model: str  #: the upstream's model
    body: JsonObject  #: in Gemini's own format; empty if a guard would answer
    notes: dict[str, int]
    losses: tuple[str, ...]


def explain_request(
    protocol: Protocol, body: JsonObject, caller: Caller, services: Services, settings: Settings
) -> ExplainedRequest:
    """`body` is valid for the protocol's schema. Raises BridgeError if the request would be refused."""
    trace, record = _GeminiRequests(), Record("", "POST", "", protocol=protocol.name)
    offline = replace(
        services, context=_EstimatedFitting(settings.context, settings.editors), media=MediaByUrl(None)
    )
    open_exchange(protocol, body, caller, offline, record, trace).close()
    sent = trace.last
    return ExplainedRequest(
        record.upstream_model or "",
        {} if sent is None else request_to_json(sent),
        dict(record.notes),
        record.losses,
    )


class _EstimatedFitting(ContextFitting):
    """Estimates tokens, where the upstream would count them, and writes no summaries."""

    def fitted(
        self,
        request: GenerateRequest,
        model: str,
        capabilities: ModelCapabilities,
        count: Callable[[GenerateRequest], int],
        record: Record,
        summaries: SummarySource | None = None,
    ) -> GenerateRequest:
        return super().fitted(request, model, capabilities, request_tokens, record)


class _GeminiRequests:
    """A trace that remembers what would be sent."""

    def __init__(self) -> None:
        self.last: GenerateRequest | None = None

    def client_request(self, body: JsonObject) -> None: ...

    def gemini_request(self, request: GenerateRequest) -> None:
        self.last = request

    def batch(self, chunks: Sequence[Chunk], events: Sequence[tuple[str, object]]) -> None: ...

    def client_answer(self, body: JsonObject) -> None: ...
