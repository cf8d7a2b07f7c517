"""Runs one request, from the client's body to the last event. Only this module uses every layer.

It connects the layers and leaves the decisions to them: the protocol converts the request, the model
adapter changes it to what Gemini accepts, RetryingStream retries, and the Turn finds out how the answer
ended. A failure before the first event becomes an HTTP error; a later failure becomes the protocol's own
error event.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from bridge.errors import (
    BridgeError,
    ClientDisconnected,
    InternalError,
    ShuttingDown,
    UnknownModel,
    UpstreamError,
)
from bridge.exchange.adapting import USAGE_ESTIMATED
from bridge.exchange.answer_stream import answer_stream
from bridge.exchange.losses import RequestLosses
from bridge.exchange.model_choices import NO_ARM, EnteredArm, unknown_model
from bridge.exchange.request_cache import OFF
from bridge.exchange.request_conversation import in_conversation
from bridge.exchange.services import Services
from bridge.exchange.tool_runs import agent_answer, hosted_answer
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject, Usage
from bridge.guards.base import ShortCircuit
from bridge.guards.guard_runner import GuardRunner
from bridge.interruption import Interruption
from bridge.observe.record import Record
from bridge.observe.trace import Trace
from bridge.protocols.base import (
    Caller,
    Event,
    EventMachine,
    Protocol,
)
from bridge.protocols.json_reading import reject_deep_nesting
from bridge.upstream.base import AnswerStream
from bridge.upstream.canned_stream import CannedStream
from bridge.upstream.retries import LONGEST_HOLD

log = logging.getLogger(__name__)

#: Returns whether the client still waits for the answer.
Wanted = Callable[[], bool]
CHECK_INTERVAL = 1.0  #: seconds between two calls of `Wanted`
FAULTS_OF_CLIENTS = (400, 404)  #: statuses of errors that say nothing about the upstream


class Exchange:
    """A running answer. `close` must be called at its end, and may be called earlier."""

    def __init__(
        self,
        protocol: Protocol,
        machine: EventMachine,
        chunks: AnswerStream,
        guards: GuardRunner,
        services: Services,
        record: Record,
        trace: Trace | None,
        interruption: Interruption,
    ) -> None:
        self._framing = protocol.framing(machine.converted)
        self._machine = machine
        self._chunks = chunks
        self._guards = guards
        self._drain = services.drain
        self._failures = services.failures
        self._interruption = interruption
        self._heartbeat = services.heartbeat
        self._record = record
        self._trace = trace
        #: `chain` and `map` run in C: a batch passes no generator of this class.
        self._batches: Iterator[list[Event]] = chain(map(self._events, chunks), self._last_events())
        self._held: list[Event] = []
        self._encoded_to_the_end = False
        self._closed = False
        machine.sent_tier = lambda: None if chunks.request is None else chunks.request.service_tier
        machine.context_steps = lambda: record.context_steps

    @property
    def streaming(self) -> bool:
        return self._machine.converted.stream

    @property
    def content_type(self) -> str:
        """The content type of the stream."""
        return self._framing.content_type

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response."""
        return self._machine.converted.headers

    def start(self, wanted: Wanted) -> None:
        """Send the request and wait for the first events; raises if the request fails before them.

        A client that handles errors better inside the stream gets the error there. If the first events take
        long, the stream begins without them, because its client needs heartbeats.
        """
        began = time.monotonic()
        for events in self._batches_while_wanted(wanted):
            self._held = events
            if events or (self.streaming and time.monotonic() - began > LONGEST_HOLD):
                break
        self._record.model_version = self._chunks.model_version
        self._record.upstream_wait = self._chunks.waited
        self._record.losses = tuple(sorted({*self._record.losses, *self._chunks.losses}))
        error = self._machine.error
        if error is not None and not (self.streaming and self._machine.reports_in_stream(error)):
            raise error

    def _batches_while_wanted(self, wanted: Wanted) -> Iterator[list[Event]]:
        """The batches; a failure is the last one. Raises ClientDisconnected if the client disconnected."""
        if self._chunks.asks_model:
            self._record.asks_model()
        checked = time.monotonic()
        while (events := self._next_batch()) is not None:
            now = time.monotonic()
            if now - checked >= CHECK_INTERVAL or not events:
                checked = now
                if not wanted():
                    raise ClientDisconnected("The client disconnected before the answer was complete")
            yield events

    def _next_batch(self) -> list[Event] | None:
        try:
            return next(self._batches, None)
        except Exception as error:
            return self._fail(error)

    def encoded(self, wanted: Wanted, ends: Callable[[], None]) -> Iterator[bytes]:
        """The encoded stream: events that arrive together are written together. Calls `ends` before the last
        event is written."""
        machine = self._machine
        self._record.first_byte()
        if machine.over:
            self._call(ends)
        yield self._framing.encode_events(self._held) or self._framing.keep_alive()
        last_write = time.monotonic()
        try:
            for events in self._batches:
                if events:
                    if machine.over:
                        self._call(ends)
                    yield self._framing.encode_events(events)
                    last_write = time.monotonic()
                elif not wanted():
                    return
                elif time.monotonic() - last_write >= self._heartbeat and not machine.over:
                    yield self._framing.keep_alive()
                    last_write = time.monotonic()
        except Exception as error:
            if events := self._fail(error):
                self._call(ends)
                yield self._framing.encode_events(events)
        self._encoded_to_the_end = True

    def _call(self, ends: Callable[[], None]) -> None:
        """Whatever fails there, the client gets its last event."""
        try:
            ends()
        except Exception:
            log.exception("unexpected failure", extra={"request_id": self._record.request_id})

    def body(self, wanted: Wanted) -> JsonObject:
        """The whole answer; raises ClientDisconnected if the client disconnects."""
        events = self._held + [event for batch in self._batches_while_wanted(wanted) for event in batch]
        self._record.upstream_wait = self._chunks.waited
        if self._machine.error is not None:
            raise self._machine.error
        body = self._machine.fold(events)
        if self._trace:
            self._trace.client_answer(body)
        return body

    def encoded_batches(self, wanted: Wanted) -> Iterator[tuple[int, bytes]]:
        """The encoded stream without heartbeats: each piece with its number of events. A failure ends it with
        the protocol's error events; raises ClientDisconnected if the answer is no longer wanted."""
        for events in self._batches_while_wanted(wanted):
            if events:
                yield len(events), self._framing.encode_events(events)
        self._record.upstream_wait = self._chunks.waited
        self._encoded_to_the_end = True

    @property
    def pending(self) -> JsonObject:
        return self._machine.pending

    @property
    def answer(self) -> JsonObject | None:
        """The complete answer, at its end, in protocols that can store answers."""
        return self._machine.answer

    def _events(self, chunks: Sequence[Chunk]) -> list[Event]:
        if self._drain.begun and self._drain.over:
            raise ShuttingDown("The bridge is restarting; send the request again")
        if self._interruption.error is not None:
            raise self._interruption.error
        if self._trace is None:
            return self._machine.feed(map(self._guards.feed, chunks))
        events: list[Event] = []
        try:
            events = self._machine.feed(map(self._guards.feed, chunks))
        finally:
            self._trace.batch(chunks, events)
        return events

    def _last_events(self) -> Iterator[list[Event]]:
        yield self._traced(self._machine.finish())

    def _fail(self, error: Exception) -> list[Event]:
        """End the answer with the protocol's error events. Failures inside the answer take the same path,
        so only the event machine knows how the answer ended."""
        self._batches = iter(())
        if not isinstance(error, BridgeError):
            log.error("unexpected failure", exc_info=error, extra={"request_id": self._record.request_id})
            error = InternalError("The bridge failed; its log says where")
        if isinstance(error, UnknownModel):
            error = unknown_model(self._machine.converted.request.model, self._record.upstream_model)
        return self._traced(self._machine.fail(error))

    def _traced(self, events: list[Event]) -> list[Event]:
        if self._trace:
            self._trace.batch((), events)
        return events

    def close(self) -> None:
        """Fill in the record. Only the first call has an effect."""
        if self._closed:
            return
        self._closed = True
        self._batches = iter(())  # breaks a reference cycle
        chunks, record, machine = self._chunks, self._record, self._machine
        chunks.close()
        record.count(machine.usage)
        record.note([USAGE_ESTIMATED] if machine.usage.estimated else [])
        record.service_tier = machine.service_tier
        record.finish_reasons = machine.finish_reasons
        record.note(machine.losses)
        record.note(self._guards.notes)
        record.note(chunks.notes)
        record.model_version = chunks.model_version
        record.usage = (record.usage or Usage()) + chunks.discarded
        if chunks.request is not None:
            record.upstream_model = chunks.request.model
        if error := machine.error or machine.error_in_answer:
            record.failed(error)
        elif not machine.over and record.error is None:
            record.unfinished(lost=self._encoded_to_the_end)
        for upstream, each in (*chunks.replaced_errors, (chunks.upstream, error)):
            if isinstance(each, UpstreamError) and each.status not in FAULTS_OF_CLIENTS:
                self._failures.failed(upstream, each.kind)
                record.upstream_errors.append((upstream, each.kind))


def open_exchange(
    protocol: Protocol,
    body: JsonObject,
    caller: Caller,
    services: Services,
    record: Record,
    trace: Trace | None,
) -> Exchange:
    """Convert the request; `start` sends it."""
    if trace:
        trace.client_request(body)
    with reject_deep_nesting():
        converted = protocol.to_gemini(body, caller)
    asked = in_conversation(converted, body, caller, record)
    record.model, record.stream = asked.request.model, asked.stream
    arm = services.arm_of(asked.request, caller, record)
    losses = RequestLosses(caller, record)
    record.upstream_model = services.models.resolve(record.model, arm.models)
    caller.permit(record.model, services.models.permission_name(record.model, arm.models))
    guards = GuardRunner(services.guards, record.request_id)
    ask = partial(
        answer_of_model,
        arm=arm,
        services=services,
        record=record,
        guards=guards,
        losses=losses,
        trace=trace,
    )
    if services.agents.serve(record.model):
        chunks = agent_answer(asked, ask, caller, services, record, losses)
    elif asked.hosted is not None:
        chunks = hosted_answer(asked, asked.hosted, ask, caller, services, losses)
    else:
        losses.of_request(asked.losses)
        chunks = ask(asked.request, caller)
    machine = protocol.machine(asked, services.ids_and_clock)
    return Exchange(protocol, machine, chunks, guards, services, record, trace, caller.interruption)


def answer_of_model(
    request: GenerateRequest,
    caller: Caller,
    *,
    arm: EnteredArm = NO_ARM,
    services: Services,
    record: Record,
    guards: GuardRunner,
    losses: RequestLosses,
    trace: Trace | None = None,
) -> AnswerStream:
    """The answer to one request. An agent asks for several."""
    guarded = guards.request(request)
    if isinstance(guarded, ShortCircuit):
        return CannedStream(guarded.text)
    if guards.notes:  # the answer to a prompt that a guard changed is not kept
        caller = replace(caller, key_cache=OFF)
    return answer_stream(guarded, arm, caller, services, record, losses, trace)
