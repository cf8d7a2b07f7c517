"""Runs one request for vectors. It has no stream: the bridge calls the upstream and answers at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from bridge.exchange.losses import RequestLosses
from bridge.exchange.model_choices import priced_choices
from bridge.exchange.request_cache import OFF
from bridge.exchange.services import Services
from bridge.exchange.unary_attempts import first_answer
from bridge.gemini.generation import estimated_tokens
from bridge.gemini.service_tier import STANDARD
from bridge.gemini.types import Content, GenerateRequest, JsonObject, Usage
from bridge.guards.base import ShortCircuit
from bridge.guards.guard_runner import GuardRunner
from bridge.observe.record import Record
from bridge.protocols.base import Caller
from bridge.protocols.embedding import ConvertedEmbedding, Embedding
from bridge.protocols.json_reading import reject_deep_nesting
from bridge.settings.routes import Target

ESTIMATED = "embedding.tokens_estimated"  #: the note for an answer of Google's without a count


def embed(
    embedding: Embedding, body: JsonObject, caller: Caller, services: Services, record: Record
) -> JsonObject:
    with reject_deep_nesting():
        asked = embedding.to_gemini(body, caller)
    record.model = asked.model
    targets = _permitted_targets(asked.model, caller, services, record)
    services.note_target(record, targets[0])
    RequestLosses(caller, record).of_request(asked.losses)
    contents = _guarded(asked, services, record)
    changed = contents is not asked.contents

    def answer_of(target: Target, batch: Sequence[Content]) -> JsonObject:
        services.note_target(record, target)
        rule = OFF if changed else services.models.table.capabilities(target.model).cache
        row, upstream = services.upstreams.rows[target.upstream], services.upstreams[target.upstream]
        cached = services.cache.in_front_of(upstream, row, rule, None, caller, record)
        return cached.unary_call(target.model, asked.method, asked.body(target.model, batch))

    record.usage = total = Usage()
    record.asks_model()
    kept = []
    for batch in _batches(contents, asked.most_at_once or len(contents)):
        if caller.interruption.error is not None:
            raise caller.interruption.error
        with record.waiting():
            answer = first_answer(targets, partial(answer_of, batch=batch), services, record)
        usage = _usage(answer, batch, record)
        record.count(usage)
        total += usage
        kept.append(asked.read(answer, len(batch)))
    return asked.answer(kept, total.prompt)


def _permitted_targets(name: str, caller: Caller, services: Services, record: Record) -> list[Target]:
    """One model, at each upstream that serves it: another model's vectors do not fit into the same index."""
    chosen = services.models.choices(name)[0]
    caller.permit(name, chosen.model)
    targets = services.models.routed(chosen)
    if caller.cost_limited:
        (targets,) = priced_choices([targets], STANDARD, services.prices, record)
    return targets


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
