"""What an upstream is: a request in, batches of chunks out.

Chunks that arrived together are handed on together, so that they can leave in one write. An upstream raises
only `UpstreamError` and its kin (or `InvalidRequest`, for what cannot be sent, or `TooBusy`, for want of
room): foreign exceptions are translated where they enter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self

from bridge.errors import UnknownModel
from bridge.gemini.types import USER, Chunk, Content, GenerateRequest, JsonObject, Part, Usage
from bridge.settings import Settings
from bridge.upstream.capabilities import Capability
from bridge.upstream.cooldowns import Cooldowns

#: Seconds of silence after which whoever reads a stream is given the turn, by an empty batch.
TICK = 1.0
Tick = tuple[()]  #: the empty batch: a chance to look after other things


class ChunkStream(ABC):
    """One answer: asked for when its reading begins. `close` may be called at any time, and more than once.

    An empty batch means that nothing came for a tick, before the answer began or in the middle of it: a
    chance to show the client that we are still here, to notice that it is not, or that we must stop.
    """

    waited: float = 0.0  #: seconds spent so far on waiting for the upstream

    @abstractmethod
    def __iter__(self) -> Iterator[Sequence[Chunk]]: ...

    @abstractmethod
    def close(self) -> None: ...


class AnswerStream(ChunkStream):
    """The stream that an exchange reads. It also reports how the answer came about."""

    asks_model: ClassVar[bool]
    request: GenerateRequest | None = None  #: the request that was sent last
    model_version: str | None = None  #: the model that answers, in the upstream's words, once they are known

    def __init__(self) -> None:
        self.notes: Counter[str] = Counter()
        self.discarded = Usage()  #: tokens of answers that the client never saw; they are billed all the same


class Upstream(ABC):
    #: What it cannot carry, each with the reason; docs/UPSTREAMS.md shows it, and a test tries it out.
    CANNOT: ClassVar[Mapping[Capability, str]] = {}

    #: Models of one family that are served in different realms do not know each other's thought signatures.
    realm: ClassVar[str] = ""

    #: The address that it asks; none where nobody is asked.
    home: str = ""

    #: What the operator must be told at the start.
    notices: Sequence[str] = ()

    @classmethod
    def from_settings(cls, settings: Settings, cooldowns: Cooldowns) -> Self:
        """Made without opening a connection; raises SettingsError for what is missing."""
        raise NotImplementedError

    @abstractmethod
    def stream(self, request: GenerateRequest) -> ChunkStream:
        """Prepare the request; what cannot be sent is refused here. Reading the stream sends it."""

    @abstractmethod
    def count_tokens(self, request: GenerateRequest) -> int:
        """How many tokens the request would have, with its instruction and tools."""

    def check_credentials(self, model: str) -> None:
        """Ask something that costs nothing, and that only who is let in is told. Raises what is wrong."""
        self.count_tokens(GenerateRequest(model, (Content(USER, (Part("Hi"),)),)))

    def unary_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        """A method of Google's API whose answer is no stream, such as `embedContent`, in Google's words."""
        raise UnknownModel(f"This upstream has no {method} for {model!r}", param="model")

    @abstractmethod
    def models(self) -> Sequence[JsonObject]:
        """The models that can generate, each as Google describes it: `name`, `inputTokenLimit`, …"""
