"""Runs one request for vectors. It has no stream: the bridge calls the upstream and answers at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridge.exchange.exchange import Services
from bridge.exchange.losses import RequestLosses
from bridge.exchange.model_choices import priced_choices
from bridge.gemini.generation import estimated_tokens
from bridge.gemini.service_tier import STANDARD
from bridge.gemini.types import Content, GenerateRequest, JsonObject, Usage
from bridge.guards.base import ShortCircuit
from bridge.guards.guard_runner import GuardRunner
from bridge.observe.record import Record
from bridge.protocols.base import Caller, ConvertedEmbedding, Embedding
from bridge.protocols.json_reading import reject_deep_nesting

ESTIMATED = "embedding.tokens_estimated"  #: the note for an answer of Google's without a count


def embed(
    embedding: Embedding, body: JsonObject, caller: Caller, services: Services, record: Record
) -> JsonObject:
    with reject_deep_nesting():
        asked = embedding.to_gemini(body, caller)
    record.model = asked.model
    record.upstream_model = model = _permitted_model(asked.model, caller, services, record)
    RequestLosses(caller, record).of_request(asked.losses)
    contents = _guarded(asked, services, record)
    upstream = services.cached_upstream(caller, record)
    record.usage = total = Usage()
    record.asks_model()
    kept = []
    for batch in _batches(contents, asked.most_at_once or len(contents)):
        if caller.interruption.error is not None:
            raise caller.interruption.error
        with record.waiting():
            answer = upstream.unary_call(model, asked.method, asked.body(model, batch))
        usage = _usage(answer, batch, record)
        record.count(usage)
        total += usage
        kept.append(asked.read(answer, len(batch)))
    return asked.answer(kept, total.prompt)


def _permitted_model(name: str, caller: Caller, services: Services, record: Record) -> str:
    """One model: another model's vectors do not fit into the same index."""
    model = services.models.choices(name)[0]
    caller.permit(name, model)
    if caller.cost_limited:
        priced_choices([[model]], STANDARD, services.prices, record)
    return model


def _guarded(asked: ConvertedEmbedding, services: Services, record: Record) -> Sequence[Content]:
    guards = GuardRunner(services.guards, record.request_id)
    guarded = guards.request(GenerateRequest(asked.model, asked.contents))
    record.note(guards.notes)
    return asked.contents if isinstance(guarded, ShortCircuit) else guarded.contents


def _batches(contents: Sequence[Content], most: int) -> Iterator[Sequence[Content]]:
    return (contents[begin : begin + most] for begin in range(0, len(contents), most))


def _usage(answer: JsonObject, contents: Sequence[Content], record: Record) -> Usage:
    """Google's count. Its older models send none; then the bridge estimates it."""
    counted = answer.get("usageMetadata")
    usage = Usage(counted if isinstance(counted, dict) else {})
    if usage.prompt:
        return usage
    record.note([ESTIMATED])
    return Usage({"promptTokenCount": estimated_tokens(GenerateRequest("", tuple(contents))) or 1})
