"""The values of Gemini's wire format, immutable.

A Part is a oneof (`data`) with independent siblings: whether it is a thought and whether it is signed are
separate questions. Fields that this module does not name are kept in `extra` and sent on unchanged.
`wire.py` reads and writes the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

from bridge.gemini.service_tier import tier_from_usage

JsonObject = Mapping[str, Any]

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value_type(cls: type[T]) -> type[T]:
    """A dataclass that is frozen for the type checker only. At run time a frozen dataclass takes several
    times as long to create, and a long history needs hundreds of them."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


class _Empty(JsonObject):
    """An empty object. Immutable and hashable, so that dataclasses accept it as a default."""

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


@value_type
class FunctionCall:
    name: str
    args: JsonObject | None = None
    id: str | None = None
    extra: JsonObject = EMPTY


@value_type
class FunctionResponse:
    name: str
    response: JsonObject = EMPTY
    id: str | None = None
    #: Images and files that the tool returned; `parts` on the wire.
    media: tuple[InlineData | FileData, ...] = ()
    extra: JsonObject = EMPTY


@value_type
class InlineData:
    mime_type: str
    data: str  #: base64, unchanged
    extra: JsonObject = EMPTY


@value_type
class FileData:
    uri: str
    mime_type: str | None = None
    extra: JsonObject = EMPTY
    param: str = ""  #: the client's field, if the exchange must decide who fetches the address; never sent


@value_type
class OtherData:
    """A member of the oneof that the bridge passes on unread: executed code, server-side tools, unknown
    members."""

    field: str
    value: Any


#: Text is a plain string, because nearly every part of a stream is text.
PartData = str | FunctionCall | FunctionResponse | InlineData | FileData | OtherData | None


@value_type
class Part:
    data: PartData = None
    thought: bool = False
    signature: str | None = None  #: `thoughtSignature`, never decoded
    extra: JsonObject = EMPTY


@value_type
class Content:
    role: str | None
    parts: tuple[Part, ...] = ()
    extra: JsonObject = EMPTY

    def calls(self) -> Iterator[FunctionCall]:
        return (part.data for part in self.parts if isinstance(part.data, FunctionCall))


@value_type
class FunctionDeclaration:
    name: str
    description: str | None = None
    schema: JsonObject | None = None  #: `parametersJsonSchema`
    extra: JsonObject = EMPTY
    strict: bool = False  #: the client wants calls that follow the schema; never sent


@value_type
class Tool:
    functions: tuple[FunctionDeclaration, ...] = ()
    extra: JsonObject = EMPTY  #: googleSearch, codeExecution and other built-in tools


GOOGLE_SEARCH = Tool(extra={"googleSearch": {}})
CODE_EXECUTION = Tool(extra={"codeExecution": {}})


@value_type
class Thinking:
    """The thinking that the client asked for. The model decides which of Gemini's fields expresses it."""

    effort: str | None = None  #: none, minimal, low, medium, high
    budget: int | None = None
    show: bool = True


@value_type
class ContextWish:
    """A step of `bridge/context/` that the client asks for, and its options."""

    step: str
    options: JsonObject = EMPTY


@value_type
class GenerateRequest:
    model: str
    contents: tuple[Content, ...]
    system: Content | None = None
    tools: tuple[Tool, ...] = ()
    tool_config: JsonObject = EMPTY
    generation: JsonObject = EMPTY
    thinking: Thinking | None = None  #: becomes `generation["thinkingConfig"]` once the model is known
    #: The client uses Gemini's own API: its signatures are Gemini's, and the bridge leaves its thinking
    #: settings and its combination of tools alone.
    native: bool = False
    #: The client allows images in the answer. A model that cannot draw answers with text alone.
    draws: bool = False
    #: Whether Google may keep prompt and answer. None: the Google project's setting applies.
    store: bool | None = None
    #: The tier that the client asked for, later the tier to send; see `service_tier.py`.
    service_tier: str | None = None
    extra: JsonObject = EMPTY
    #: The id of the conversation, by which some upstreams choose a key. It is not sent to Gemini.
    conversation: str = field(default="", compare=False)
    #: What the client wants the bridge to do with a long history. It is not sent to Gemini.
    context: tuple[ContextWish, ...] = ()


#: In `usageMetadata`: the names of counts that the bridge estimated, because the upstream did not count them.
ESTIMATED_USAGE = "estimated"

#: A larger count is a mistake: some JSON parsers and databases cannot hold it.
MAX_TOKEN_COUNT = 1 << 50


@value_type
class Usage:
    """`usageMetadata`: running totals; the last one counts. `prompt` includes the cached tokens."""

    raw: JsonObject = EMPTY

    def _count(self, name: str) -> int:
        value_type = self.raw.get(name)
        return value_type if isinstance(value_type, int) and 0 <= value_type <= MAX_TOKEN_COUNT else 0

    def __add__(self, other: Usage) -> Usage:
        """The usage of two answers together: only the numbers, since details cannot be added."""
        if not other.raw:
            return self
        names = [name for name in {**self.raw, **other.raw} if name.endswith("TokenCount")]
        return Usage({name: self._count(name) + other._count(name) for name in names})

    @property
    def prompt(self) -> int:
        return self._count("promptTokenCount") + self.tool_prompt

    @property
    def tool_prompt(self) -> int:
        """Tokens that Gemini's built-in tools added to the prompt."""
        return self._count("toolUsePromptTokenCount")

    @property
    def cached(self) -> int:
        return self._count("cachedContentTokenCount")

    @property
    def thoughts(self) -> int:
        return self._count("thoughtsTokenCount")

    @property
    def output(self) -> int:
        """Answer and thoughts: Gemini counts them separately, the client protocols together."""
        return self._count("candidatesTokenCount") + self.thoughts

    @property
    def service_tier(self) -> str | None:
        return tier_from_usage(self.raw)

    @property
    def estimated(self) -> bool:
        """Whether the bridge estimated a count."""
        return ESTIMATED_USAGE in self.raw

    @property
    def total(self) -> int:
        return self._count("totalTokenCount") or self.prompt + self.output


@value_type
class Candidate:
    content: Content | None = None
    finish_reason: str | None = None  #: unchanged; `finish.py` maps it to an outcome
    index: int | None = None
    extra: JsonObject = EMPTY

    @property
    def number(self) -> int:
        return self.index or 0

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.content.parts if self.content else ()


@value_type
class Chunk:
    candidates: tuple[Candidate, ...] = ()
    usage: Usage | None = None
    prompt_feedback: JsonObject | None = None
    extra: JsonObject = EMPTY


class TextChunk(Chunk):
    """A chunk that holds only text of the first candidate, like nearly all chunks of a stream.

    Fast paths read `text`; other code reads it like any Chunk, whose fields are computed on access.
    `dataclasses.replace` does not work on it."""

    __slots__ = ("source", "text")

    def __init__(self, text: str, source: JsonObject) -> None:
        self.text = text
        self.source = source  #: the JSON; its only candidate has this text as its only part

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        (candidate,) = self.source["candidates"]
        content = Content(candidate["content"]["role"], (Part(self.text),))
        return (Candidate(content, index=candidate.get("index")),)

    @property
    def usage(self) -> Usage | None:
        usage = self.source.get("usageMetadata")
        return None if usage is None else Usage(usage)

    @property
    def prompt_feedback(self) -> None:
        return None

    @property
    def extra(self) -> JsonObject:
        named = ("candidates", "usageMetadata")
        return {key: value_type for key, value_type in self.source.items() if key not in named} or EMPTY

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chunk) and _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return TextChunk, (self.text, self.source)


def _fields(chunk: Chunk) -> tuple[Any, ...]:
    return chunk.candidates, chunk.usage, chunk.prompt_feedback, chunk.extra
