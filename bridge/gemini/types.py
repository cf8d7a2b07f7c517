"""The values of Gemini's wire format, immutable.

A Part is a oneof (`data`) with independent siblings: whether it is a thought and whether it is signed are
separate questions. Fields this module does not name are kept in `extra` and leave as they came.
JSON comes and goes through `wire.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

from bridge.gemini.service_tier import tier_in

JsonObject = Mapping[str, Any]

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """A frozen dataclass to the type checker, and a plain one at run time: a frozen one costs several times
    as much to make, and a long history is made of hundreds."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


class _Empty(JsonObject):
    """No fields. Immutable, and hashable, as dataclasses want their defaults."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"


EMPTY: JsonObject = _Empty()

USER = "user"
MODEL = "model"


@value
class FunctionCall:
    name: str
    args: JsonObject | None = None
    id: str | None = None
    extra: JsonObject = EMPTY


@value
class FunctionResponse:
    name: str
    response: JsonObject = EMPTY
    id: str | None = None
    media: tuple[InlineData | FileData, ...] = ()  #: `parts` on the wire: images and files a tool returned
    extra: JsonObject = EMPTY


@value
class InlineData:
    mime_type: str
    data: str  #: base64, as it came
    extra: JsonObject = EMPTY


@value
class FileData:
    uri: str
    mime_type: str | None = None
    extra: JsonObject = EMPTY
    param: str = ""  #: the client's field, if the exchange must decide who fetches the address; never sent


@value
class OtherData:
    """A member of the oneof that the bridge only carries: executed code, server-side tools, the future."""

    field: str
    value: Any


#: Text is a plain string: nearly every part of a stream is text.
PartData = str | FunctionCall | FunctionResponse | InlineData | FileData | OtherData | None


@value
class Part:
    data: PartData = None
    thought: bool = False
    signature: str | None = None  #: `thoughtSignature`, never decoded
    extra: JsonObject = EMPTY


@value
class Content:
    role: str | None
    parts: tuple[Part, ...] = ()
    extra: JsonObject = EMPTY

    def calls(self) -> Iterator[FunctionCall]:
        return (part.data for part in self.parts if isinstance(part.data, FunctionCall))


@value
class FunctionDeclaration:
    name: str
    description: str | None = None
    schema: JsonObject | None = None  #: `parametersJsonSchema`
    extra: JsonObject = EMPTY


@value
class Tool:
    functions: tuple[FunctionDeclaration, ...] = ()
    extra: JsonObject = EMPTY  #: googleSearch, codeExecution and their kin


GOOGLE_SEARCH = Tool(extra={"googleSearch": {}})


@value
class Thinking:
    """What the client asked for; which of Gemini's fields says it depends on the model."""

    effort: str | None = None  #: none, minimal, low, medium, high
    budget: int | None = None
    show: bool = True


@value
class GenerateRequest:
    model: str
    contents: tuple[Content, ...]
    system: Content | None = None
    tools: tuple[Tool, ...] = ()
    tool_config: JsonObject = EMPTY
    generation: JsonObject = EMPTY
    thinking: Thinking | None = None  #: becomes `generation["thinkingConfig"]` once the model is known
    #: The client speaks Gemini itself: its signatures are Gemini's own, and how it thinks and what tools it
    #: combines is its affair.
    native: bool = False
    store: bool | None = (
        None  #: whether Google may keep prompt and answer; None: as the Google project has it
    )
    service_tier: str | None = None  #: the client's wish, until it is settled what is sent; `service_tier.py`
    extra: JsonObject = EMPTY
    #: The id of the conversation, for upstreams that choose by it; Gemini is not told.
    conversation: str = field(default="", compare=False)


#: A larger count is a mistake; JSON and databases would choke on some of them.
MOST_TOKENS = 1 << 50


@value
class Usage:
    """`usageMetadata`: running totals, of which the last counts. `prompt` includes what was cached."""

    raw: JsonObject = EMPTY

    def _count(self, name: str) -> int:
        value = self.raw.get(name)
        return value if isinstance(value, int) and 0 <= value <= MOST_TOKENS else 0

    def __add__(self, other: Usage) -> Usage:
        """Of two answers together: the numbers alone, since details cannot be added."""
        if not other.raw:
            return self
        names = [name for name in {**self.raw, **other.raw} if name.endswith("TokenCount")]
        return Usage({name: self._count(name) + other._count(name) for name in names})

    @property
    def prompt(self) -> int:
        return self._count("promptTokenCount") + self.tool_prompt

    @property
    def tool_prompt(self) -> int:
        """What tools that Gemini runs itself have put into the prompt."""
        return self._count("toolUsePromptTokenCount")

    @property
    def cached(self) -> int:
        return self._count("cachedContentTokenCount")

    @property
    def thoughts(self) -> int:
        return self._count("thoughtsTokenCount")

    @property
    def output(self) -> int:
        """Answer and thoughts: Gemini counts them apart, the client protocols together."""
        return self._count("candidatesTokenCount") + self.thoughts

    @property
    def service_tier(self) -> str | None:
        return tier_in(self.raw)

    @property
    def total(self) -> int:
        return self._count("totalTokenCount") or self.prompt + self.output


@value
class Candidate:
    content: Content | None = None
    finish_reason: str | None = None  #: as sent; `finish.py` says what it means
    index: int | None = None
    extra: JsonObject = EMPTY

    @property
    def number(self) -> int:
        return self.index or 0

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.content.parts if self.content else ()


@value
class Chunk:
    candidates: tuple[Candidate, ...] = ()
    usage: Usage | None = None
    prompt_feedback: JsonObject | None = None
    extra: JsonObject = EMPTY


class TextChunk(Chunk):
    """More text of the first candidate and nothing else, as nearly all chunks of a stream are. Who has an eye
    for it takes `text`; to everybody else it is a Chunk like any other, made up when looked at. Only
    `replace` cannot be used on it."""

    __slots__ = ("source", "text")

    def __init__(self, text: str, source: JsonObject) -> None:
        self.text = text
        self.source = source  #: the JSON, whose one candidate has that text as its one part

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        (candidate,) = self.source["candidates"]
        said = Content(candidate["content"]["role"], (Part(self.text),))
        return (Candidate(said, index=candidate.get("index")),)

    @property
    def usage(self) -> Usage | None:
        counted = self.source.get("usageMetadata")
        return None if counted is None else Usage(counted)

    @property
    def prompt_feedback(self) -> None:
        return None

    @property
    def extra(self) -> JsonObject:
        named = ("candidates", "usageMetadata")
        return {key: value for key, value in self.source.items() if key not in named} or EMPTY

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chunk) and _told(self) == _told(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return TextChunk, (self.text, self.source)


def _told(chunk: Chunk) -> tuple[Any, ...]:
    return chunk.candidates, chunk.usage, chunk.prompt_feedback, chunk.extra
