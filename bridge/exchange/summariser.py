"""Has a model write one summary. The request passes no guard and no event machine: its answer is for the
bridge."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from bridge.context.estimate import CHARACTERS_PER_TOKEN
from bridge.context.learned_scale import UNKNOWN
from bridge.context.summary_task import LONGEST, SummaryTask, problem_of, summary_request
from bridge.errors import NotAllowed, UnknownModel, UpstreamMalformed
from bridge.exchange.adapting import adapted
from bridge.exchange.google_storage import without_storage
from bridge.exchange.model_choices import Choices, permitted_choices, priced_choices
from bridge.exchange.services import Services
from bridge.gemini.finish import Outcome
from bridge.gemini.service_tier import STANDARD
from bridge.gemini.turn import RunKind, Step, TextAdded, Turn, TurnEnded, TurnFailed
from bridge.gemini.types import Usage
from bridge.observe.record import Record
from bridge.protocols.base import Caller
from bridge.settings.context import AUTO
from bridge.settings.routes import Target
from bridge.upstream.base import Tick
from bridge.upstream.prepared_attempt import PreparedAttempt
from bridge.upstream.retries import RetryingStream

#: The window that a model has if its own is not known.
USUAL_WINDOW = 128_000
#: A model that goes on beyond so many times the allowed length repeats itself.
FAR_TOO_LONG = 4


@dataclass(frozen=True, slots=True)
class Summariser:
    """Writes summaries of one client's conversations."""

    model: str  #: as the client named it
    caller: Caller
    services: Services

    def write(
        self, task: SummaryTask, record: Record, spent: Callable[[Usage], None]
    ) -> Generator[Tick, None, str]:
        """Returns the summary, and yields while the model writes. Raises BridgeError, also for a text that is
        no summary. `spent` gets the usage, whatever happens."""
        stream = self._stream(task, record)
        record.asks_model()
        turn, pieces = Turn(), list[str]()
        try:
            for chunks in stream:
                if self.caller.interruption.error is not None:
                    raise self.caller.interruption.error
                for chunk in chunks:
                    pieces += _texts(turn.feed(chunk))
                _check_length(pieces)
                yield ()
            return _checked("".join(pieces).strip(), turn.finish(), task)
        finally:
            stream.close()
            record.upstream_wait = (record.upstream_wait or 0.0) + stream.waited
            record.note(stream.notes)
            spent(turn.usage + stream.discarded)

    def _stream(self, task: SummaryTask, record: Record) -> RetryingStream:
        services = self.services
        choices = self._choices(record)
        stream = RetryingStream(
            choices,
            lambda target: self._prepared(task, target, record),
            services.policy,
            services.cooldowns,
            services.models,
        )
        stream.prepare_first()
        return stream

    def _choices(self, record: Record) -> Choices:
        """The model for summaries, and the model of the conversation: the caller's key may forbid the first,
        or no upstream may have it."""
        models = self.services.models
        named = self.services.context.settings.model
        if named == AUTO:
            named = models.table.capabilities(models.resolve(self.model)).summary_model
        own = self._permitted(self.model, record)
        try:
            return [*self._permitted(named, record), *own] if named else own
        except (NotAllowed, UnknownModel):
            return own

    def _permitted(self, name: str, record: Record) -> Choices:
        choices = permitted_choices(name, self.caller, self.services.models, record.conversation)
        if self.caller.cost_limited:
            choices = priced_choices(choices, STANDARD, self.services.prices, record)
        return choices

    def _prepared(self, task: SummaryTask, target: Target, record: Record) -> PreparedAttempt:
        services = self.services
        window = services.models.capabilities(target).window or USUAL_WINDOW
        room = int(max(window - task.longest, window // 2) / UNKNOWN)
        request = replace(summary_request(task, target.model, room), conversation=record.conversation)
        prepared = adapted(request, target, self.caller, services, record)
        repaired, _ = services.models.without_known_problems(without_storage(prepared.request), target)
        services.note_target(record, target)
        return prepared._replace(request=repaired)


def _texts(steps: list[Step]) -> list[str]:
    return [step.text for step in steps if isinstance(step, TextAdded) and step.kind is RunKind.TEXT]


def _check_length(pieces: list[str]) -> None:
    if sum(map(len, pieces)) > FAR_TOO_LONG * LONGEST * CHARACTERS_PER_TOKEN:
        raise UpstreamMalformed("The summary of the conversation has no end")


def _checked(text: str, last: list[Step], task: SummaryTask) -> str:
    outcome = Outcome.BROKEN
    for step in last:
        if isinstance(step, TurnFailed):
            raise step.error
        if isinstance(step, TurnEnded) and not step.endings[0].called:
            outcome = step.endings[0].outcome
    if problem := problem_of(text, outcome, task):
        raise UpstreamMalformed(f"The model wrote no usable summary of the conversation: {problem}")
    return text
