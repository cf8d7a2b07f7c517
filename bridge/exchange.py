"""One request's life, from the client's body to the last event. The only module that sees every layer.

It wires and does not decide: what to convert is the protocol's business, what Gemini accepts the fitting's,
how an answer ended the Turn's. A failure before the first event is an ordinary HTTP error; after it, the
protocol's own error event ends the stream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from bridge.errors import BridgeError, InternalError, UnknownModel
from bridge.gemini.fitting import Fitting, fit
from bridge.gemini.signatures import Vault
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.guards.base import Instead
from bridge.guards.watch import ActiveGuards, GuardWatch
from bridge.observe.record import Record
from bridge.observe.trace import Trace
from bridge.protocols.base import Asked, Caller, Embedding, Event, EventMachine, Protocol, TokenCounting
from bridge.settings.models import ModelTable
from bridge.stamp import Stamp
from bridge.upstream.base import ChunkStream, Upstream
from bridge.upstream.spoken import SpokenStream

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """What every exchange needs and none owns."""

    upstream: Upstream
    models: ModelTable
    vault: Vault
    stamp: Stamp
    guards: ActiveGuards


class Exchange:
    """An answer on its way. `close` must be called, however it ends; it may be called early."""

    def __init__(
        self,
        protocol: Protocol,
        machine: EventMachine,
        send: Callable[[], ChunkStream],
        watch: GuardWatch,
        fitting: Fitting,
        record: Record,
        trace: Trace | None,
    ) -> None:
        self._framing = protocol.framing(machine.asked)
        self._machine = machine
        self._send = send
        self._chunks: ChunkStream | None = None
        self._watch = watch
        self._fitting = fitting
        self._record = record
        self._trace = trace
        self._batches = self._run()
        self._held: list[Event] = []

    @property
    def streaming(self) -> bool:
        return self._machine.asked.stream

    @property
    def content_type(self) -> str:
        """Of the stream."""
        return self._framing.content_type

    def start(self) -> None:
        """Send the request and wait for the first events. What fails before them is raised, and gets an HTTP
        status, unless this client understands it better in the stream."""
        self._held = next((events for events in self._batches if events), [])
        error = self._machine.error
        if error is not None and not (self.streaming and self._machine.takes_in_stream(error)):
            raise error

    def encoded(self) -> Iterator[bytes]:
        """The stream: events that came together leave together."""
        self._record.first_byte()
        yield self._framing.written(self._held)
        for events in self._batches:
            if events:
                yield self._framing.written(events)
            elif not self._machine.over:
                yield self._framing.silence()

    def body(self) -> JsonObject:
        return self._folded(self._held + [event for batch in self._batches for event in batch])

    def _folded(self, events: list[Event]) -> JsonObject:
        if self._machine.error is not None:
            raise self._machine.error
        body = self._machine.fold(events)
        if self._trace:
            self._trace.client_answer(body)
        return body

    @property
    def pending(self) -> JsonObject:
        return self._machine.pending

    @property
    def answer(self) -> JsonObject | None:
        """The whole answer, once it is over, in protocols whose answers can be stored."""
        return self._machine.answer

    def worked_off(self, still_wanted: Callable[[], bool]) -> JsonObject | None:
        """The body, worked off without a client; None as soon as nobody wants it any more."""
        events: list[Event] = []
        for batch in self._batches:
            events += batch
            if not still_wanted():
                return None
        return self._folded(events)

    def _run(self) -> Iterator[list[Event]]:
        try:
            self._chunks = self._send()
            for chunks in self._chunks:
                if self._trace:
                    self._trace.chunks(chunks)
                fitted = map(self._fitting.feed, chunks)
                yield self._traced(self._machine.feed(map(self._watch.feed, fitted)))
            yield self._traced(self._machine.finish())
        except BridgeError as error:
            yield self._traced(self._machine.fail(error))
        except Exception:
            log.exception("unexpected failure", extra={"request_id": self._record.request_id})
            yield self._traced(self._machine.fail(InternalError("The bridge failed; its log says where")))

    def _traced(self, events: list[Event]) -> list[Event]:
        if self._trace:
            self._trace.events(events)
        return events

    def close(self) -> None:
        if self._chunks is not None:
            self._chunks.close()
        record, machine = self._record, self._machine
        record.usage = machine.usage
        record.notes.update(machine.losses)
        record.notes.update(self._watch.notes)
        if machine.error is not None:
            record.failed(machine.error)
        elif not machine.over:
            record.outcome = "client_left"


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
    asked = protocol.to_gemini(body, caller)
    record.model, record.stream = asked.request.model, asked.stream
    watch = GuardWatch(services.guards, record.request_id)
    judged = watch.request(asked.request)
    guarded = asked.request if isinstance(judged, Instead) else judged
    request, fitting = _fitted(guarded, services)
    record.upstream_model = request.model
    record.notes.update((*asked.losses, *fitting.notes))
    if trace:
        trace.gemini_request(request)
    machine = protocol.machine(asked, services.stamp)
    send: Callable[[], ChunkStream] = partial(_sent, request, asked, services)
    if isinstance(judged, Instead):
        send = partial(SpokenStream, judged.text)
    return Exchange(protocol, machine, send, watch, fitting, record, trace)


def count_tokens(
    counting: TokenCounting, body: JsonObject, caller: Caller, services: Services, record: Record
) -> int:
    asked = counting.to_gemini(body, caller)
    record.model = asked.request.model
    watch = GuardWatch(services.guards, record.request_id)
    request, _ = _fitted(watch.counted(asked.request), services)
    record.upstream_model = request.model
    return services.upstream.count_tokens(request)


def embed(
    embedding: Embedding, body: JsonObject, caller: Caller, services: Services, record: Record
) -> JsonObject:
    asked = embedding.to_gemini(body, caller)
    record.model = asked.model
    record.upstream_model = model = services.models.resolve(asked.model)
    watch = GuardWatch(services.guards, record.request_id)
    guarded = watch.request(GenerateRequest(asked.model, asked.contents))
    record.notes.update(watch.notes)
    contents = asked.contents if isinstance(guarded, Instead) else guarded.contents
    return services.upstream.short_call(model, asked.method, asked.body(model, contents))


def _fitted(request: GenerateRequest, services: Services) -> tuple[GenerateRequest, Fitting]:
    model = services.models.resolve(request.model)
    traits = services.models.traits(model)
    return fit(request, model, traits, services.vault, services.stamp.new_id)


def _sent(request: GenerateRequest, asked: Asked, services: Services) -> ChunkStream:
    try:
        return services.upstream.stream(request)
    except UnknownModel as error:
        if asked.request.model == request.model:
            raise
        raise UnknownModel(
            f"{asked.request.model!r} is served by {request.model!r} here (config/models.toml), "
            "and the upstream does not have that model",
            param="model",
        ) from error
