"""The interface of an upstream: it takes a request and yields batches of chunks.

Chunks that arrive together are yielded together, so that the bridge can send them in one write. An upstream
raises only `UpstreamError` and its subclasses, `InvalidRequest` (the request cannot be sent) or `TooBusy`
(the bridge lacks resources): it translates the exceptions of its libraries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import ClassVar, Self, TypeVar

from bridge.errors import BridgeError, UnknownModel
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import USER, Chunk, Content, GenerateRequest, JsonObject, Part, Usage
from bridge.settings import Settings, UpstreamRow
from bridge.upstream.capabilities import Capability
from bridge.upstream.cooldowns import Cooldowns

#: Seconds without data after which a stream yields an empty batch, to return control to its reader.
TICK = 1.0
Tick = tuple[()]  #: the empty batch
T = TypeVar("T")


def wait_for(waiting: Generator[Tick, None, T]) -> T:
    """Block until the result; for callers that need no ticks."""
    while True:
        try:
            next(waiting)
        except StopIteration as end:
            result: T = end.value
            return result


class ChunkStream(ABC):
    """One answer. The request is sent when reading begins; `close` may be called at any time, and repeatedly.

    An empty batch means that no chunk arrived within a tick. The reader uses it to send a heartbeat to the
    client, to notice that the client disconnected, or to notice that the worker must stop.
    """

    waited: float = 0.0  #: seconds spent so far waiting for the upstream

    @abstractmethod
    def __iter__(self) -> Iterator[Sequence[Chunk]]: ...

    @abstractmethod
    def close(self) -> None: ...


class AnswerStream(ChunkStream):
    """The stream that an exchange reads; it also reports which request and model produced the answer."""

    asks_model: ClassVar[bool]
    request: GenerateRequest | None = None  #: the request that was sent last
    model_version: str | None = None  #: the model that answers, as the upstream names it; None until known
    losses: Sequence[str] = ()  #: what repairs dropped from the request that was sent last

    def __init__(self) -> None:
        self.notes: Counter[str] = Counter()
        self.discarded = Usage()  #: tokens of answers that the client never saw; Google bills them too
        self.upstream = ""  #: the name of the upstream that was asked last
        #: Errors that another attempt followed, each with the name of its upstream.
        self.replaced_errors: list[tuple[str, BridgeError]] = []


class Upstream(ABC):
    #: Unsupported capabilities with the reason; docs/UPSTREAMS.md lists them, and a test checks them.
    CANNOT: ClassVar[Mapping[Capability, str]] = {}

    #: A model does not accept thought signatures from the same model in another realm.
    realm: ClassVar[str] = ""

    #: The base URL; empty if the upstream has no network address.
    home: str = ""

    #: Messages for the operator, logged at the start.
    notices: Sequence[str] = ()

    #: Whether `count_tokens` estimates, because the server cannot count.
    estimates_counts: bool = False

    @classmethod
    def from_row(cls, row: UpstreamRow, settings: Settings, cooldowns: Cooldowns) -> Self:
        """Opens no connection; raises SettingsError if a setting is missing or not supported."""
        raise NotImplementedError

    @abstractmethod
    def stream(self, request: GenerateRequest) -> ChunkStream:
        """Prepare the request; raises if it cannot be sent. Reading the stream sends it."""

    @abstractmethod
    def count_tokens(self, request: GenerateRequest) -> int:
        """The number of tokens of the request, with its instruction and tools."""

    def losses_of(self, request: GenerateRequest) -> Sequence[str]:
        """The names of the losses: what this upstream drops from the request."""
        return ()

    def completed(self, capabilities: ModelCapabilities) -> ModelCapabilities:
        """The capabilities of a model as this upstream serves it."""
        return capabilities

    def check_credentials(self, model: str) -> None:
        """Make a free call that needs valid credentials; raises its error."""
        self.count_tokens(GenerateRequest(model, (Content(USER, (Part("Hi"),)),)))

    def unary_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        """Call a method of Google's API that does not stream, such as `embedContent`, in Google's format."""
        raise UnknownModel(f"This upstream does not support {method} for the model {model!r}", param="model")

    @abstractmethod
    def models(self) -> Sequence[JsonObject]:
        """The models that can generate, as in Google's list: `name`, `inputTokenLimit`, …"""
