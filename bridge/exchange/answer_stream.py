"""Opens the stream of an answer: a request's model, its context, and what its client must wait for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bridge.exchange.adapting import adapted
from bridge.exchange.compaction import compaction_task, compaction_wish, is_worth_it
from bridge.exchange.conversation_summaries import ConversationSummaries
from bridge.exchange.fitted import fitted
from bridge.exchange.google_storage import without_storage
from bridge.exchange.losses import RequestLosses
from bridge.exchange.model_choices import Choices, EnteredArm, permitted_choices, priced_choices
from bridge.exchange.services import Services
from bridge.exchange.summaries import SummaryNeeded
from bridge.exchange.summarised_stream import CompactedStream, SummarisedStream
from bridge.exchange.summariser import Summariser
from bridge.exchange.token_counting import counted_by_upstream
from bridge.gemini.service_tier import STANDARD, normalise_tier, tier_to_send
from bridge.gemini.summary_part import CompactionWish
from bridge.gemini.thinking import with_level
from bridge.gemini.types import GenerateRequest
from bridge.observe.record import Record
from bridge.observe.trace import Trace
from bridge.protocols.base import Caller
from bridge.settings.routes import Target
from bridge.upstream.base import AnswerStream
from bridge.upstream.prepared_attempt import PreparedAttempt
from bridge.upstream.retries import RetryingStream

RETIRED = "model.retired"  #: the note for a retired model that another model replaces


def answer_stream(
    request: GenerateRequest,
    arm: EnteredArm,
    caller: Caller,
    services: Services,
    record: Record,
    losses: RequestLosses,
    trace: Trace | None,
) -> AnswerStream:
    request = with_level(request, arm.thinking) if arm.thinking else request
    choices = permitted_choices(request.model, caller, services.models, request.conversation, arm.models)
    serving = services.upstreams.serving(choices)
    request = services.media.fetched(request, serving, caller.book_memory, record)
    tier = normalise_tier(request.service_tier or STANDARD)
    request = replace(request, service_tier=tier_to_send(tier, services.auto_tier))
    if caller.cost_limited:
        choices = priced_choices(choices, request.service_tier or STANDARD, services.prices, record)
    if services.models.is_replaced(request.model, arm.models):
        record.note([RETIRED])
    request = services.context.edited(request, record.upstream_model or "", record)
    opening = _Opening(choices, tier, arm, caller, services, record, losses, trace)
    if request.context and (wish := compaction_wish(request)) is not None:
        return opening.compacted(request, wish)
    return opening.answer(request)


@dataclass(frozen=True, slots=True)
class _Opening:
    """Opens streams for one request."""

    choices: Choices
    tier: str
    arm: EnteredArm
    caller: Caller
    services: Services
    record: Record
    losses: RequestLosses
    trace: Trace | None

    def answer(self, request: GenerateRequest) -> AnswerStream:
        """The answer; first a summary, if the request does not fit into the window without it."""
        summaries = self._summaries(request)
        try:
            return self._retrying(request, summaries)
        except SummaryNeeded as needed:
            return SummarisedStream(needed.task, summaries, lambda: self._retrying(request, summaries))

    def compacted(self, request: GenerateRequest, wish: CompactionWish) -> AnswerStream:
        """The answer after the summary that the client wants, if it is due."""
        target = self.choices[0][0]
        if wish.threshold and not (is_worth_it(request, wish) and self._reaches(request, wish, target)):
            return self.answer(request)
        summaries = self._summaries(request)
        family = self.services.models.capabilities(target).family or target.model
        task = compaction_task(request, wish, family, self.caller.owner)
        return CompactedStream(task, request, wish, summaries, self.answer)

    def _summaries(self, request: GenerateRequest) -> ConversationSummaries:
        summariser = Summariser(request.model, self.caller, self.services)
        return ConversationSummaries(self.services.summaries, summariser, self.record)

    def _reaches(self, request: GenerateRequest, wish: CompactionWish, target: Target) -> bool:
        def count(whole: GenerateRequest) -> int:
            return counted_by_upstream(whole, target, self.caller, self.services, self.record, self.losses)

        return self.services.context.reaches(request, target.model, wish.threshold, count)

    def _retrying(self, request: GenerateRequest, summaries: ConversationSummaries) -> RetryingStream:
        services = self.services
        fittings: list[GenerateRequest] = []

        def prepare(target: Target) -> PreparedAttempt:
            fittings.append(self._fitting(request, target, summaries))
            return self._prepared(fittings[-1], target)

        stream = RetryingStream(
            self.choices,
            prepare,
            services.policy,
            services.cooldowns,
            services.models,
            self.tier,
            strict=self.losses.strict,
        )
        stream.prepare_first()
        summaries.may_wait = False  # the models that follow get what exists
        if self.arm.offer is not None:
            self.arm.offer(fittings[0], self.caller.owner)
        return stream

    def _fitting(
        self, request: GenerateRequest, target: Target, summaries: ConversationSummaries
    ) -> GenerateRequest:
        return fitted(request, target, self.caller, self.services, self.record, self.losses, summaries)

    def _prepared(self, fitting: GenerateRequest, target: Target) -> PreparedAttempt:
        caller, services, record = self.caller, self.services, self.record
        prepared = adapted(fitting, target, caller, services, record)
        allowed = prepared.request if services.store else without_storage(prepared.request)
        repaired, learnt = services.models.without_known_problems(allowed, target)
        services.note_target(record, target)
        notes = (*prepared.adapter.notes, *learnt, *prepared.upstream.losses_of(repaired))
        record.note(notes)
        self.losses.of_attempt(notes)
        if self.trace:
            self.trace.gemini_request(repaired)
        return prepared._replace(request=repaired)
