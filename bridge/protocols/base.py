"""The Protocol record, and the base class of event machines.

Every protocol folder has the same files: `schema`, `converter`, `machine`, `errors`, `models`, and an
`__init__` that lists them in one Protocol record. The machine converts the steps of the shared Turn to the
protocol's own events. One method checks every event against the table of legal transitions before the state
changes. The body of a non-streaming answer is the fold of the same events. No IO.
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
from bridge.gemini.context_steps import StepTaken
from bridge.gemini.hosted_servers import HostedRequest
from bridge.gemini.refusals import blocked_prompt_text, refusal_text
from bridge.gemini.turn import (
    MetadataReceived,
    PartSigned,
    RunClosed,
    RunOpened,
    Step,
    TextAdded,
    Turn,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject, Usage
from bridge.ids_and_clock import IdsAndClock
from bridge.interruption import Interruption
from bridge.protocols.embedding import Embedding
from bridge.protocols.summary_seal import SummarySeal
from bridge.rate_limit_status import RateLimitStatus


class Event(NamedTuple):
    """`type` is the name in the table of transitions; `data` is the JSON on the wire."""

    type: str
    data: Any


class StreamFraming:
    """Encodes the events of one stream. Some subclasses keep state, so each stream has its own object."""

    content_type: ClassVar[str] = "text/event-stream; charset=utf-8"

    def __init__(self, encode: Callable[[Event], bytes], keep_alive: bytes = b": keep-alive\n\n") -> None:
        self._encode = encode
        self._keep_alive = keep_alive

    def encode_events(self, events: Iterable[Event]) -> bytes:
        return b"".join(map(self._encode, events))

    def keep_alive(self) -> bytes:
        """The heartbeat to send while the upstream is silent."""
        return self._keep_alive


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, and the request line and headers, as far as converters need them."""

    headers: Mapping[str, str] = field(default_factory=dict)
    preferences: Mapping[str, Any] = field(default_factory=dict)  #: the operator's settings for this protocol
    owner: str = ""  #: only this owner can use its stored answers and thought signatures
    #: Raises NotAllowed if the caller may use neither the requested name nor the model behind it.
    permit: Callable[[str, str], None] = lambda _name, _model: None
    cost_limited: bool = False  #: a cost limit applies, so the model must have a price
    path: Mapping[str, str] = field(default_factory=dict)  #: the values of the path's `<placeholders>`
    query: Mapping[str, str] = field(default_factory=dict)  #: the query without API keys
    chain: str = ""  #: the conversation of the stored answer that the request continues
    interruption: Interruption = field(default_factory=Interruption)  #: set if the answer must end early
    key_dialect: str | None = None  #: the dialect that the administrator set for the caller's key
    #: Admits bytes that the bridge fetches for the request to the worker's memory, or raises.
    book_memory: Callable[[int], None] = lambda _size: None
    key_cache: str = ""  #: the administrator's rule of the key for the request cache: on, off or none
    #: Counts a request that the bridge makes for the caller against the caller's limits, with its record.
    #: Raises LimitReached.
    book_request: Callable[[Any], None] = lambda _record: None
    seal: SummarySeal = field(default_factory=SummarySeal)  #: of the summaries that the caller gets and sends
    #: The error if a budget of the caller is used up by now.
    spent: Callable[[], BridgeError | None] = lambda: None
    key_strict: bool = False  #: whether the administrator set the caller's key to strict mode


@dataclass(frozen=True, slots=True)
class ConvertedRequest:
    """A client's request, converted to Gemini's values."""

    request: GenerateRequest  #: with the client's names for model and tools
    stream: bool
    options: Any = None  #: options for this protocol's machine
    losses: tuple[str, ...] = ()  #: harmless losses: fields that Gemini does not support
    #: Response headers, for example the chosen dialect.
    headers: Mapping[str, str] = field(default_factory=dict)
    hosted: HostedRequest | None = None  #: the servers whose tools the bridge calls


@dataclass(frozen=True, slots=True)
class Protocol:
    name: str
    paths: tuple[str, ...]  #: Flask rules; the values of `<placeholders>` are in the Caller
    schema: Schema
    to_gemini: Callable[[JsonObject, Caller], ConvertedRequest]
    machine: type[EventMachine]
    framing: Callable[[ConvertedRequest], StreamFraming]
    error_body: Callable[[BridgeError, str], JsonObject]  #: with the request id
    error_status: Callable[[BridgeError], int]
    list_models: Callable[[Sequence[JsonObject], Mapping[str, str]], JsonObject]  #: with the query
    show_model: Callable[[JsonObject], JsonObject]
    models_path: str = "/v1/models"
    #: Request headers that identify a client of this protocol if the path does not.
    identifying_headers: frozenset[str] = frozenset()
    counting: TokenCounting | None = None
    embedding: Embedding | None = None
    compaction: Compaction | None = None
    storing: AnswerStoring | None = None
    conversations: ConversationRules | None = None
    #: Paths that always answer 404. Without them, a similar rule would answer a less helpful 405.
    unsupported_paths: tuple[str, ...] = ()
    root: str = ""  #: every path below it belongs to this protocol, even if it does not exist
    request_id_header: str = "X-Request-Id"  #: the header that the vendor's clients read
    #: The state of a rate limit in the vendor's headers.
    limit_headers: Callable[[RateLimitStatus], Mapping[str, str]] = lambda _status: {}
    #: What is dropped from requests and from answers: a sentence for each name in `losses`.
    request_losses: Mapping[str, str] = field(default_factory=dict)
    answer_losses: Mapping[str, str] = field(default_factory=dict)
    #: Longer delays are not sent, because the clients would wait silently.
    max_retry_after: float = math.inf

    @property
    def all_paths(self) -> Iterator[str]:
        """All paths that this protocol serves."""
        for route in (self, self.counting, self.embedding, self.compaction):
            yield from route.paths if route else ()

    @property
    def path_prefixes(self) -> tuple[str, ...]:
        """The path prefixes that belong to this protocol."""
        if self.root:
            return (self.root,)
        heads = tuple(path.partition("<")[0].rstrip("/") for path in self.paths)
        return heads if self.conversations is None else (*heads, self.conversations.path)


class CountedTokens(NamedTuple):
    tokens: int
    original: int  #: before the context edits


@dataclass(frozen=True, slots=True)
class TokenCounting:
    """A protocol's endpoint that counts the tokens of a request, as the model would get it."""

    paths: tuple[str, ...]
    schema: Schema
    to_gemini: Callable[[JsonObject, Caller], ConvertedRequest]
    body: Callable[[CountedTokens, ConvertedRequest], JsonObject]


@dataclass(frozen=True, slots=True)
class Compaction:
    """A protocol's endpoint that replaces a conversation by a shorter one."""

    paths: tuple[str, ...]
    schema: Schema
    request: Callable[[JsonObject], JsonObject]  #: the protocol's request for a summary
    body: Callable[
        [JsonObject, JsonObject], JsonObject
    ]  #: from the client's request and the summary's answer


class PastTurn(NamedTuple):
    """A stored turn: the input items of the request, and the answer."""

    question: Sequence[JsonObject]
    answer: JsonObject


#: The `status` values of an answer that is not finished.
UNFINISHED_STATUSES = ("queued", "in_progress")


@dataclass(frozen=True, slots=True)
class StreamReplay:
    """A protocol's rules for streaming the stored events of a background answer. An answer's events have the
    positions 0, 1, 2, …"""

    #: The position from which the query wants the events; None if it does not ask for a stream.
    position: Callable[[Mapping[str, str]], int | None]
    #: The encoded events that end the stream of a finished answer whose own last events were never stored.
    #: The number is the position of the first of them.
    ending: Callable[[JsonObject, int, Caller], bytes]
    keep_alive: Callable[[Caller], bytes]  #: the heartbeat


@dataclass(frozen=True, slots=True)
class AnswerStoring:
    """A protocol's rules for stored answers and their continuation. Answers have an `id` and a `status`."""

    should_store: Callable[[JsonObject], bool]
    previous_id: Callable[[JsonObject], str | None]  #: the id of the answer that a request continues
    previous_field: str
    is_background: Callable[[JsonObject], bool]
    input_items: Callable[[JsonObject], list[dict[str, Any]]]
    #: The request with references to stored items replaced by the items; the function finds an item by id.
    resolve_references: Callable[[JsonObject, Callable[[str], JsonObject | None]], JsonObject]
    with_history: Callable[[JsonObject, Sequence[PastTurn]], JsonObject]
    id_prefix: str  #: prefix of this protocol's answer ids: all protocols share one store
    id_field: str  #: the vendor's name for such an id
    not_found: type[BridgeError]  #: the error if a request continues an unknown answer
    is_cancellable: Callable[[JsonObject], bool]
    as_failed: Callable[[JsonObject, BridgeError], JsonObject]
    deletion_body: Callable[[str], JsonObject]  #: the response body after a deletion
    #: The body for a stored answer, from the answer, its input items and the query.
    render: Callable[[JsonObject, Sequence[JsonObject], Mapping[str, str]], JsonObject]
    replay: StreamReplay
    cancel_paths: tuple[str, ...] = ("/cancel",)  #: appended to the path of an answer
    input_path: str | None = None  #: appended to the path of an answer: lists its input items


@dataclass(frozen=True, slots=True)
class ConversationRules:
    """A protocol's rules for conversations that clients create and name. Every item has an `id`."""

    path: str
    id_prefix: str
    create_schema: Schema
    update_schema: Schema
    add_schema: Schema
    named: Callable[
        [JsonObject], str | None
    ]  #: the id of the conversation that a request for an answer names
    metadata: Callable[[JsonObject], dict[str, str]]
    new_items: Callable[
        [JsonObject], list[dict[str, Any]]
    ]  #: the items that a client adds, as they are stored
    identified: Callable[[JsonObject], JsonObject]  #: the request with its input as items that can be stored
    with_items: Callable[[JsonObject, Sequence[JsonObject]], JsonObject]  #: with earlier items before its own
    #: The items that the identified request and its finished answer add.
    added: Callable[[JsonObject, JsonObject], list[dict[str, Any]]]
    body: Callable[[str, int, Mapping[str, str]], JsonObject]  #: from id, time of creation and metadata
    deletion_body: Callable[[str], JsonObject]


Transitions = Mapping[Enum, Mapping[str, Enum]]


class EventMachine(ABC):
    """One answer in one protocol. `feed` batches of chunks, then `finish`; `fail` before the end."""

    LEGAL: ClassVar[Transitions]
    START: ClassVar[Enum]
    _on: ClassVar[Mapping[type[Step], Callable[[Any, Any], Iterable[Event]]]]
    MAX_CANDIDATES: ClassVar[int] = 1  #: how many candidates the protocol can express
    #: The clients read Gemini's finish reasons themselves, so none of them is a failure.
    ANY_FINISH_REASON_ENDS: ClassVar[bool] = False

    def __init__(self, converted: ConvertedRequest, ids_and_clock: IdsAndClock) -> None:
        self.converted = converted
        self.ids_and_clock = ids_and_clock
        self.state: Enum = self.START
        self._legal = self.LEGAL[self.START]  #: the transitions of the current state, cached for speed
        self.error: BridgeError | None = None
        #: A failure that the answer itself reports, for example by its finish reason.
        self.error_in_answer: BridgeError | None = None
        self.losses: list[str] = []
        self.pending: JsonObject = {}  #: the answer before its first content, if answers can be stored
        self.answer: JsonObject | None = None  #: the finished answer, if answers can be stored
        self._turn = Turn(self.MAX_CANDIDATES, any_finish_reason_ends=self.ANY_FINISH_REASON_ENDS)
        #: Returns the service tier of the upstream request. The exchange sets this function.
        self.sent_tier: Callable[[], str | None] = lambda: None
        #: Returns how the conversation was shortened. The exchange sets this function.
        self.context_steps: Callable[[], Sequence[StepTaken]] = lambda: ()

    def __init_subclass__(cls) -> None:
        """Build the table once per class. A table of bound methods in each machine would be a reference
        cycle."""
        cls._on = {
            TurnStarted: cls.on_turn_started,
            RunOpened: cls.on_run_opened,
            TextAdded: cls.on_text_added,
            PartSigned: cls.on_part_signed,
            RunClosed: cls.on_run_closed,
            MetadataReceived: cls.on_metadata,
            TurnEnded: cls.on_turn_ended,
            TurnFailed: cls._on_turn_failed,
        }

    def reports_in_stream(self, error: BridgeError) -> bool:
        """Whether an error before the first event goes into the stream instead of an HTTP status."""
        return False

    @property
    def usage(self) -> Usage:
        return self._turn.usage

    @property
    def service_tier(self) -> str | None:
        """The tier that Gemini reported, else the tier of the last upstream request."""
        return self.usage.service_tier or self.sent_tier()

    @property
    def finish_reasons(self) -> tuple[str, ...]:
        return self._turn.finish_reasons

    def finish_reason(self, candidate: int) -> str:
        return self._turn.finish_reason(candidate)

    def refusal(self, candidate: int) -> str:
        """Why Gemini stopped the answer or refused the prompt, in words."""
        if (block_reason := self._turn.block_reason) is not None:
            return blocked_prompt_text(str(block_reason)[:64])
        return refusal_text(self.finish_reason(candidate))

    @property
    def over(self) -> bool:
        """Whether the protocol's last event was sent."""
        return not self._legal

    def feed(self, chunks: Iterable[Chunk]) -> list[Event]:
        events: list[Event] = []
        for chunk in chunks:
            self._add_events(self._turn.feed(chunk), events)
        return events

    def finish(self) -> list[Event]:
        events: list[Event] = []
        self._add_events(self._turn.finish(), events)
        return events

    def fail(self, error: BridgeError) -> list[Event]:
        if self.over:
            return []
        events: list[Event] = []
        self._add_events([TurnFailed(error)], events)
        return events

    def _add_events(self, steps: Iterable[Step], events: list[Event]) -> None:
        for step in steps:
            for event in self._on[type(step)](self, step):
                if self._legal.get(event.type) is not self.state:  # else the state does not change
                    self._advance(event)
                events.append(event)

    def _advance(self, event: Event) -> None:
        following = self._legal.get(event.type)
        if following is None:
            raise IllegalTransition(
                f"{type(self).__name__}: {event.type} may not follow in {self.state.name}"
            )
        self.state, self._legal = following, self.LEGAL[following]

    def _on_turn_failed(self, step: TurnFailed) -> Iterable[Event]:
        self.error = step.error
        return self.on_turn_failed(step.error)

    # One method for each step. Most protocols override only some of them.

    def on_turn_started(self, step: TurnStarted) -> Iterable[Event]:
        return ()

    @abstractmethod
    def on_run_opened(self, step: RunOpened) -> Iterable[Event]: ...

    @abstractmethod
    def on_text_added(self, step: TextAdded) -> Iterable[Event]: ...

    def on_part_signed(self, step: PartSigned) -> Iterable[Event]:
        return ()

    @abstractmethod
    def on_run_closed(self, step: RunClosed) -> Iterable[Event]: ...

    def on_metadata(self, step: MetadataReceived) -> Iterable[Event]:
        return ()

    @abstractmethod
    def on_turn_ended(self, step: TurnEnded) -> Iterable[Event]: ...

    @abstractmethod
    def on_turn_failed(self, error: BridgeError) -> Iterable[Event]: ...

    @abstractmethod
    def fold(self, events: Iterable[Event]) -> JsonObject:
        """The body of the non-streaming answer, built from the events of a finished stream."""
