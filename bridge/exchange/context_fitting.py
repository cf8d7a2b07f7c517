"""Calls the steps of `bridge/context/`, and asks the upstream for its own count near the edge of the window.

The steps do no IO. This module decides which of them run for a request, tells the record what they did, and
learns from the counts that the upstream returns with its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from bridge.context import EDITS, LADDER
from bridge.context.base import ClientEdit, ContextStep, LadderStep
from bridge.context.editor_context import EditorContext
from bridge.context.estimate import request_tokens
from bridge.context.history import History, first_difference, history_of, step_taken
from bridge.context.ladder import Fitted, fits, shorten
from bridge.context.learned_scale import LearnedScales
from bridge.context.summary import Summary
from bridge.context.window import Window, window_of
from bridge.errors import BridgeError, ContextOverflow
from bridge.exchange.history_summaries import HistorySummaries
from bridge.exchange.summaries import SummarySource
from bridge.gemini.context_steps import StepTaken
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import GenerateRequest
from bridge.observe.record import Record
from bridge.settings.context import CLIENTS, ENFORCE, SHADOW, ContextSettings
from bridge.settings.editors import EditorBlock
from bridge.settings.name_patterns import Patterns
from bridge.settings.value import OFF

#: The share of the window from which on the upstream is asked for its own count.
NEAR_THE_EDGE = 0.9
#: A shortened history with a smaller estimated share of the window is not counted again. What stays may have
#: almost twice as many tokens for its estimate as the whole: calls and their arguments instead of long texts.
SURELY_FITS = 0.5
MOST_RECOUNTS = 3  #: how often the count of a shortened history may ask for a shorter one
#: The scale of a model that has not counted yet, for what an edit saved.
LIKELY = 1.0
UNCOUNTED = "context.estimated"  #: the note for a history that was shortened by the estimate alone

#: Returns the upstream's own count of a request.
Count = Callable[[GenerateRequest], int]

Step = TypeVar("Step", bound=ContextStep)


class ContextFitting:
    """The context steps of one process."""

    def __init__(self, settings: ContextSettings, editors: Sequence[EditorBlock] = ()) -> None:
        self.settings = settings
        self._editor_context = None if settings.editor_context == OFF else EditorContext(editors)
        self._clients = Patterns(settings.clients)
        self._edits = {kind.name: edit for kind in EDITS if (edit := kind(settings)).is_on()}
        self._ladder = {kind.name: step for kind in LADDER if (step := kind(settings)).is_on()}
        self.scales = LearnedScales()

    def edited(self, request: GenerateRequest, model: str, record: Record) -> GenerateRequest:
        """The request after the edits, which need no window. `model` is the first that will be asked."""
        edits = self._chosen(EDITS, self._edits, request)
        scale = self.scales.of(model, LIKELY)
        taken = []
        for edit in edits:
            edited, changes, notes = edit.apply(request)
            record.note(notes)
            if edited is not request:
                (before, _), (after, _) = history_of(request), history_of(edited)
                taken.append(step_taken(edit.name, changes, before, after, scale))
                request = edited
        if any(isinstance(edit, ClientEdit) for edit in edits):
            _expect(request, scale, record)  # the answer's count teaches the scale
        record.edits_taken = tuple(taken)
        return request

    def fitted(
        self,
        request: GenerateRequest,
        model: str,
        capabilities: ModelCapabilities,
        count: Count,
        record: Record,
        summaries: SummarySource | None = None,
    ) -> GenerateRequest:
        """The request with a history that fits into the window of the model. Raises ContextOverflow if that
        is impossible, and SummaryNeeded if it is possible with a summary that must be written first."""
        record.steps_taken = ()
        steps = self._chosen(LADDER, self._ladder if self._compresses(record.client) else {}, request)
        window = window_of(request, capabilities, self.settings) if steps else None
        if window is None:
            return self._without_repeated_state(request, record)
        window = replace(window, scale=self.scales.of(model))
        known = self._known(request, capabilities.family or model, steps, summaries)
        shortening = _Shortening(window, steps, self._learning(model, count), record, known)
        fitting, expected = request, _expect(request, window.scale, record)
        if expected >= NEAR_THE_EDGE * window.budget:
            fitting = shortening.of(request)
        else:
            shortening.look_ahead(request, expected)
        sent = self._without_repeated_state(fitting, record)
        if sent is not request:
            _expect(sent, window.scale, record)
        return sent

    def for_token_count(self, request: GenerateRequest, model: str, record: Record) -> GenerateRequest:
        """The request as it would be sent if it fits."""
        edited = self.edited(request, model, record)
        if self.settings.editor_context == ENFORCE and self._editor_context:
            return self._editor_context.apply(edited).request
        return edited

    def _without_repeated_state(self, request: GenerateRequest, record: Record) -> GenerateRequest:
        """The request with shorter blocks of editors. In shadow mode they are only counted."""
        if self._editor_context is None:
            return request
        shorter, blocks, saved = self._editor_context.apply(request)
        if not blocks:
            return request
        name, first = EditorContext.name, first_difference(request.contents, shorter.contents)
        if self.settings.editor_context == SHADOW:
            record.note([f"context.{name}.shadow"])
            record.steps_in_shadow = (StepTaken(f"{name}_shadow", blocks, saved, first),)
            return request
        record.note([f"context.{name}"])
        record.steps_taken = (*record.steps_taken, StepTaken(name, blocks, saved, first))
        return shorter

    def _known(
        self,
        request: GenerateRequest,
        family: str,
        steps: Sequence[LadderStep],
        summaries: SummarySource | None,
    ) -> HistorySummaries | None:
        if summaries is None or not any(isinstance(step, Summary) for step in steps):
            return None
        return HistorySummaries(summaries, self.settings, request, family)

    def reaches(self, request: GenerateRequest, model: str, threshold: int, count: Count) -> bool:
        """Whether the prompt has so many tokens. The upstream is asked only near the threshold."""
        expected = request_tokens(request) * self.scales.of(model)
        if expected < NEAR_THE_EDGE * threshold:
            return False
        try:
            return self._learning(model, count)(request) >= threshold
        except BridgeError:
            return expected >= threshold

    def _learning(self, model: str, count: Count) -> Count:
        def counted(request: GenerateRequest) -> int:
            tokens = count(request)
            self.scales.learn(model, request_tokens(request), tokens)
            return tokens

        return counted

    def learn(self, record: Record) -> None:
        """An observer: the upstream's count of a request that was estimated."""
        if (counted := record.counted_prompt) and record.upstream_model:
            self.scales.learn(record.upstream_model, record.estimated_tokens, counted)

    def _chosen(
        self, kinds: Iterable[type[Step]], own: Mapping[str, Step], request: GenerateRequest
    ) -> Sequence[Step]:
        """The operator's own steps and those that the client asks for, in the order of `kinds`."""
        if not request.context:
            return tuple(own.values())
        wished = {wish.step: wish.options for wish in request.context}
        return [
            kind.wished(self.settings, wished[kind.name]) if kind.name in wished else own[kind.name]
            for kind in kinds
            if kind.name in wished or kind.name in own
        ]

    def _compresses(self, client: str | None) -> bool:
        compress = self.settings.compress
        if compress == CLIENTS:
            return self._clients.match(client or "")
        return compress != OFF


def _expect(request: GenerateRequest, scale: float, record: Record) -> int:
    """The tokens that the model will probably count; the record gets them to learn from the difference."""
    record.estimated_tokens = request_tokens(request)
    record.expected_tokens = round(record.estimated_tokens * scale)
    return record.expected_tokens


@dataclass(frozen=True, slots=True)
class _Shortening:
    """Shortens one request for one model."""

    window: Window
    steps: Sequence[LadderStep]
    count: Count
    record: Record
    summaries: HistorySummaries | None = None

    def look_ahead(self, request: GenerateRequest, tokens: float) -> None:
        """Have the summary written that a request with so many tokens will need soon."""
        if self.summaries is not None and self._is_soon(self.summaries, tokens):
            history = self.summaries.added_to(history_of(request)[0])
            self.summaries.prepare(history, self.window, history)

    def _is_soon(self, summaries: HistorySummaries, tokens: float) -> bool:
        return tokens >= summaries.settings.summary_from * self.window.budget

    def of(self, request: GenerateRequest) -> GenerateRequest:
        """The same request if it fits after all."""
        counted = self._counted(request)
        if counted is not None and counted <= self.window.budget:
            self.look_ahead(request, counted)
            return request
        history, notes = history_of(request)
        if self.summaries is not None:
            history = self.summaries.added_to(history)
        fitted, tokens = self._fitted(request, history, counted)
        if fitted.taken:
            self._tell(fitted.taken, notes)
        if tokens > self.window.limit and counted is not None:
            raise _overflow(counted, self.window.limit)
        if not fitted.taken:
            return request
        self._prepare(history, fitted.history, tokens)
        return replace(request, contents=fitted.history.turns)

    def _fitted(
        self, request: GenerateRequest, history: History, counted: int | None
    ) -> tuple[Fitted, float]:
        """The fitted history and its tokens. The shortened history is counted too, because the parts that
        stay may have more tokens for their length than those that were removed."""
        window = _scaled(self.window, history, counted)
        fitted = self._shorten(history, window)
        for _ in range(MOST_RECOUNTS):
            tokens = fitted.history.tokens * window.scale
            if counted is None or not fitted.taken or tokens < SURELY_FITS * window.budget:
                break
            recounted = self._counted(replace(request, contents=fitted.history.turns))
            growth = history.until_next_move(window.grid) * window.scale
            if recounted is None or recounted + growth <= window.budget:
                break
            window = _scaled(window, fitted.history, recounted)
            fitted = self._shorten(history, window)
        return fitted, fitted.history.tokens * window.scale

    def _shorten(self, history: History, window: Window) -> Fitted:
        """A new summary comes before the steps that follow it in the ladder."""
        fitted = shorten(history, window, self.steps)
        if self.summaries is not None and (_went_on(fitted.taken) or not fits(fitted.history, window)):
            self.summaries.need(history, window)
        return fitted

    def _prepare(self, history: History, fitted: History, tokens: float) -> None:
        if self.summaries is not None and self._is_soon(self.summaries, tokens):
            self.summaries.prepare(history, self.window, fitted)

    def _counted(self, request: GenerateRequest) -> int | None:
        """The upstream's count; None if it cannot count now, for then the estimate has to do."""
        try:
            return self.count(request)
        except BridgeError:
            self.record.note([UNCOUNTED])
            return None

    def _tell(self, taken: Sequence[StepTaken], notes: Sequence[str]) -> None:
        self.record.note(notes)
        self.record.note([f"context.{step.name}" for step in taken])
        self.record.steps_taken = tuple(taken)


def _went_on(taken: Sequence[StepTaken]) -> bool:
    """Whether a step after the summary shortened the history."""
    after = False
    for kind in LADDER:
        if after and any(step.name == kind.name for step in taken):
            return True
        after = after or kind is Summary
    return False


def _scaled(window: Window, history: History, counted: int | None) -> Window:
    """The window with the scale that the upstream's count of this history shows. Without a count, it has a
    margin for the error of the estimate."""
    if counted is None:
        return replace(window, scale=window.scale / NEAR_THE_EDGE)
    return replace(window, scale=max(counted, 1) / max(history.tokens, 1))


def _overflow(tokens: int, limit: int) -> ContextOverflow:
    """In Google's words: each protocol sends the sentence of its own vendor instead."""
    error = ContextOverflow(
        f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit})."
    )
    error.tokens, error.limit = tokens, limit
    return error
