"""What a protocol is, and the machine that keeps its event order.

A protocol's folder holds the same files each time: `schema`, `converter`, `machine`, `errors`, `models`, and
an `__init__` that names them in one Protocol record. The machine turns the shared Turn's steps into the
protocol's own events; every event passes one gate, which looks it up in the table of legal transitions before
anything moves. The body of a non-streaming answer is the fold of the same events. No IO happens here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from marshmallow import Schema

from bridge.errors import BridgeError, IllegalTransition
from bridge.gemini.turn import Began, Closed, Ended, Failed, Grew, Noted, Opened, Signed, Step, Turn
from bridge.gemini.types import Chunk, Content, GenerateRequest, JsonObject, Usage
from bridge.ids_and_clock import IdsAndClock
from bridge.interruption import Interruption
from bridge.rate_limit_status import RateLimitStatus


class Event(NamedTuple):
    """`type` is the name in the table of transitions; `data` is what goes over the wire."""

    type: str
    data: Any


class StreamFraming:
    """The events of a stream as bytes. Each stream has its own, as some look back at what they wrote."""

    content_type: ClassVar[str] = "text/event-stream; charset=utf-8"

    def __init__(self, encode: Callable[[Event], bytes], keep_alive: bytes = b": keep-alive\n\n") -> None:
        self._encode = encode
        self._keep_alive = keep_alive

    def written(self, events: Iterable[Event]) -> bytes:
        return b"".join(map(self._encode, events))

    def silence(self) -> bytes:
        """A sign of life while the upstream says nothing."""
        return self._keep_alive


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and where, as far as a protocol may care."""

    headers: Mapping[str, str] = field(default_factory=dict)
    preferences: Mapping[str, Any] = field(default_factory=dict)  #: the operator's, for this protocol
    owner: str = ""  #: stored answers and thought signatures are the owner's alone
    #: Raises NotAllowed if the caller may use neither the name it gave nor the model that it means.
    permit: Callable[[str, str], None] = lambda _name, _model: None
    cost_limited: bool = False  #: a limit on cost applies, so that the model must have a price
    path: Mapping[str, str] = field(default_factory=dict)  #: what stood in the open places of the path
    query: Mapping[str, str] = field(default_factory=dict)  #: the query, without the key that it may hold
    chain: str = ""  #: the conversation of the stored answer that is gone on from
    interruption: Interruption = field(default_factory=Interruption)  #: says if the answer must end early
    key_dialect: str | None = None  #: what the administrator chose for the caller's key


@dataclass(frozen=True, slots=True)
class ConvertedRequest:
    """A client's request, understood."""

    request: GenerateRequest  #: with the client's own names for model and tools
    stream: bool
    options: Any = None  #: what only this protocol's machine needs to know
    losses: tuple[str, ...] = ()  #: what Gemini has no place for and is harmless to leave out
    headers: Mapping[str, str] = field(default_factory=dict)  #: of the answer: how the client was understood


@dataclass(frozen=True, slots=True)
class Protocol:
    name: str
    paths: tuple[str, ...]  #: as Flask writes them; what stands in `<open places>` is in the Caller
    schema: Schema
    to_gemini: Callable[[JsonObject, Caller], ConvertedRequest]
    machine: type[EventMachine]
    framing: Callable[[ConvertedRequest], StreamFraming]
    error_body: Callable[[BridgeError, str], JsonObject]  #: with the request id
    error_status: Callable[[BridgeError], int]
    list_models: Callable[[Sequence[JsonObject], Mapping[str, str]], JsonObject]  #: with the query
    show_model: Callable[[JsonObject], JsonObject]
    models_path: str = "/v1/models"
    #: Request headers by which a client of this protocol is known where the path does not tell.
    marks: frozenset[str] = frozenset()
    counting: TokenCounting | None = None
    embedding: Embedding | None = None
    storing: AnswerStoring | None = None
    #: Where nothing is, though a path beside it would take another HTTP method: a 404 tells more than a 405.
    nowhere: tuple[str, ...] = ()
    root: str = ""  #: what lies below is this protocol's alone, whether it exists or not
    request_id_header: str = "X-Request-Id"  #: where the vendor's own clients look for it
    #: What a limit leaves, in the vendor's headers.
    limit_headers: Callable[[RateLimitStatus], Mapping[str, str]] = lambda _allowance: {}
    longest_wait: float = math.inf  #: clients are not told to wait longer, since they would, without a word

    @property
    def served(self) -> Iterator[str]:
        """Every path at which something is answered."""
        for asked in (self, self.counting, self.embedding):
            yield from asked.paths if asked else ()

    @property
    def homes(self) -> tuple[str, ...]:
        """Beginnings of a path that make it this protocol's."""
        heads = (path.partition("<")[0].rstrip("/") for path in self.paths)
        return (self.root,) if self.root else tuple(heads)


@dataclass(frozen=True, slots=True)
class TokenCounting:
    """A protocol's way to ask how many tokens a request would have."""

    paths: tuple[str, ...]
    schema: Schema
    to_gemini: Callable[[JsonObject, Caller], ConvertedRequest]
    body: Callable[[int], JsonObject]


class ConvertedEmbedding(NamedTuple):
    """Contents whose vectors are wanted, in the words of Google's API."""

    model: str  #: as the client named it
    method: str
    contents: tuple[Content, ...]
    body: Callable[[str, Sequence[Content]], JsonObject]  #: for the model that it means
    #: What is kept of Google's answer to one call, with the number of its contents.
    read: Callable[[JsonObject, int], Any] = lambda answer, _contents: answer
    #: The answer in the protocol's format, from what was kept of each call and the tokens of all contents.
    answer: Callable[[Sequence[Any], int], JsonObject] = lambda kept, _tokens: kept[0]
    most_at_once: int | None = None  #: contents in one call; None: all of them


@dataclass(frozen=True, slots=True)
class Embedding:
    """A protocol's way to ask for the vectors of texts."""

    paths: tuple[str, ...]
    schema: Schema
    to_gemini: Callable[[JsonObject, Caller], ConvertedEmbedding]


class PastTurn(NamedTuple):
    """A stored turn: the items that were asked with, and the answer."""

    question: Sequence[JsonObject]
    answer: JsonObject


#: An answer that is not over yet has one of these for its `status`.
WORKING = ("queued", "in_progress")


@dataclass(frozen=True, slots=True)
class AnswerStoring:
    """A protocol's way to keep answers and to go on from them. Answers have an `id` and a `status`."""

    wanted: Callable[[JsonObject], bool]
    previous: Callable[[JsonObject], str | None]  #: the id of the answer that a request goes on from
    previous_field: str
    background: Callable[[JsonObject], bool]
    question: Callable[[JsonObject], list[dict[str, Any]]]
    #: The request with its references to stored items replaced by what the given function finds for them.
    dereferenced: Callable[[JsonObject, Callable[[str], JsonObject | None]], JsonObject]
    resumed: Callable[[JsonObject, Sequence[PastTurn]], JsonObject]
    id_prefix: str  #: of the ids of this protocol's answers: all protocols share one store
    id_field: str  #: what the vendor calls such an id
    unknown: type[BridgeError]  #: how a request is refused that goes on from an answer that is not there
    cancellable: Callable[[JsonObject], bool]
    failed: Callable[[JsonObject, BridgeError], JsonObject]
    deleted: Callable[[str], JsonObject]  #: what is said of an answer that was deleted
    #: How an answer is shown that was asked for again: with what was asked, and the query.
    shown: Callable[[JsonObject, Sequence[JsonObject], Mapping[str, str]], JsonObject]
    cancel_paths: tuple[str, ...] = ("/cancel",)  #: behind the id
    question_path: str | None = None  #: behind the id, where what was asked is listed


Transitions = Mapping[Enum, Mapping[str, Enum]]


class EventMachine(ABC):
    """One answer in one protocol. `feed` batches of chunks, then `finish`; `fail` before the end."""

    LEGAL: ClassVar[Transitions]
    START: ClassVar[Enum]
    _on: ClassVar[Mapping[type[Step], Callable[[Any, Any], Iterable[Event]]]]
    MOST_CANDIDATES: ClassVar[int] = 1  #: how many answers to one question the protocol can tell apart
    KNOWS_REASONS: ClassVar[bool] = False  #: its clients read Gemini's finish reasons, whatever they say

    def __init__(self, asked: ConvertedRequest, ids_and_clock: IdsAndClock) -> None:
        self.asked = asked
        self.ids_and_clock = ids_and_clock
        self.state: Enum = self.START
        self._legal = self.LEGAL[self.START]  #: what may follow; kept, since to look it up costs more
        self.error: BridgeError | None = None
        self.handed_on: BridgeError | None = None  #: a failure that the client reads in the answer itself
        self.losses: list[str] = []
        self.pending: JsonObject = {}  #: the answer before anything is said, where it can be stored
        self.answer: JsonObject | None = None  #: the whole of it, once it is over, where it can be stored
        self._turn = Turn(self.MOST_CANDIDATES, any_reason=self.KNOWS_REASONS)
        #: The service tier in the request that is being answered; only who sends it knows.
        self.sent_tier: Callable[[], str | None] = lambda: None

    def __init_subclass__(cls) -> None:
        """The table is the class's: one in each machine would make the machine hold on to itself."""
        cls._on = {
            Began: cls.on_began,
            Opened: cls.on_opened,
            Grew: cls.on_grew,
            Signed: cls.on_signed,
            Closed: cls.on_closed,
            Noted: cls.on_noted,
            Ended: cls.on_ended,
            Failed: cls._on_failed,
        }

    def takes_in_stream(self, error: BridgeError) -> bool:
        """Whether a failure before the first event is better told in the stream than by an HTTP status."""
        return False

    @property
    def usage(self) -> Usage:
        return self._turn.usage

    @property
    def service_tier(self) -> str | None:
        """The tier that serves, as far as Gemini has said, else the one that was asked for last."""
        return self.usage.service_tier or self.sent_tier()

    @property
    def finish_reasons(self) -> tuple[str, ...]:
        return self._turn.finish_reasons

    @property
    def over(self) -> bool:
        """Nothing may follow: the protocol's last event has been sent."""
        return not self._legal

    def feed(self, chunks: Iterable[Chunk]) -> list[Event]:
        events: list[Event] = []
        for chunk in chunks:
            self._take(self._turn.feed(chunk), events)
        return events

    def finish(self) -> list[Event]:
        events: list[Event] = []
        self._take(self._turn.finish(), events)
        return events

    def fail(self, error: BridgeError) -> list[Event]:
        if self.over:
            return []
        events: list[Event] = []
        self._take([Failed(error)], events)
        return events

    def _take(self, steps: Iterable[Step], events: list[Event]) -> None:
        for step in steps:
            for event in self._on[type(step)](self, step):
                if self._legal.get(event.type) is not self.state:  # else it stays where it is
                    self._pass(event)
                events.append(event)

    def _pass(self, event: Event) -> None:
        following = self._legal.get(event.type)
        if following is None:
            raise IllegalTransition(
                f"{type(self).__name__}: {event.type} may not follow in {self.state.name}"
            )
        self.state, self._legal = following, self.LEGAL[following]

    def _on_failed(self, step: Failed) -> Iterable[Event]:
        self.error = step.error
        return self.on_failed(step.error)

    # What a protocol does with each step. Most need only some of them.

    def on_began(self, step: Began) -> Iterable[Event]:
        return ()

    @abstractmethod
    def on_opened(self, step: Opened) -> Iterable[Event]: ...

    @abstractmethod
    def on_grew(self, step: Grew) -> Iterable[Event]: ...

    def on_signed(self, step: Signed) -> Iterable[Event]:
        return ()

    @abstractmethod
    def on_closed(self, step: Closed) -> Iterable[Event]: ...

    def on_noted(self, step: Noted) -> Iterable[Event]:
        return ()

    @abstractmethod
    def on_ended(self, step: Ended) -> Iterable[Event]: ...

    @abstractmethod
    def on_failed(self, error: BridgeError) -> Iterable[Event]: ...

    @abstractmethod
    def fold(self, events: Iterable[Event]) -> JsonObject:
        """The body of the non-streaming answer, made of the events of a finished one."""
