"""Everything that the demo model reads from a request.

The request is Google's JSON. Agents wrap the user's text in reminders and context of their own; only the
user's text is the question.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import orjson

from bridge.gemini.types import (
    MODEL,
    Content,
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    JsonObject,
    Part,
)
from bridge.gemini.wire import content_to_json, request_from_json, request_to_json

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MEDIUM = 258  # Gemini's count for a small image
OUTPUT_LIMIT = 65_536
MOST_CANDIDATES = 8
LONGEST_GIST = 4_000

_MARK = re.compile(r"\[demo:([\w-]+)\]", re.IGNORECASE)
_WRAPPERS = ("system-reminder", "environment_context", "user_instructions")
_DICTATION = re.compile(r"(?:echo:|repeat after me:)\s*(?=\S)", re.IGNORECASE)
_SAYING = re.compile(r"say:?\s+(?=\S)", re.IGNORECASE)
_QUOTES = ('""', "''", "“”", "``")
_THINKING = re.compile(r"\b(?:think|thinking|reason|reasoning|step by step)\b", re.IGNORECASE)


def tokens(characters: int) -> int:
    return ceil(characters / CHARACTERS_PER_TOKEN)


@dataclass(frozen=True)
class DemoRequest:
    request: GenerateRequest
    variant: str | None = None  #: the fault that the model name or the prompt selects

    @property
    def model(self) -> str:
        return self.request.model

    @cached_property
    def digest(self) -> bytes:
        """The only source of variety: the same conversation always gets the same answer."""
        turns = [content_to_json(content) for content in self.request.contents]
        return hashlib.sha256(orjson.dumps(turns, default=dict, option=orjson.OPT_SORT_KEYS)).digest()

    @cached_property
    def question(self) -> str:
        """The user's text: the last text that is not only wrapping."""
        texts = reversed(_last_texts(self.request))
        return next(filter(None, (_MARK.sub("", _unwrapped(text)).strip() for text in texts)), "")

    @property
    def gist(self) -> str:
        """The start of the question, which the patterns search."""
        return self.question[:LONGEST_GIST]

    @cached_property
    def dictated(self) -> str | None:
        """The text that the user asks to repeat exactly, if any."""
        if found := _DICTATION.match(self.question):
            return self.question[found.end() :]
        if not (found := _SAYING.match(self.question)):
            return None
        said = self.question[found.end() :]
        return said[1:-1] if len(said) > 2 and said[0] + said[-1] in _QUOTES else said

    @cached_property
    def results(self) -> tuple[FunctionResponse, ...]:
        """The tool results in the last turn."""
        last = _last_turn(self.request)
        return tuple(part.data for part in last if isinstance(part.data, FunctionResponse))

    @cached_property
    def media(self) -> tuple[InlineData | FileData, ...]:
        last = _last_turn(self.request)
        return tuple(part.data for part in last if isinstance(part.data, InlineData | FileData))

    @cached_property
    def functions(self) -> tuple[FunctionDeclaration, ...]:
        """The functions that may be called."""
        declared = (function for tool in self.request.tools for function in tool.functions if function.name)
        allowed = self._calling.get("allowedFunctionNames")
        if not isinstance(allowed, list) or not allowed:
            return tuple(declared)
        return tuple(function for function in declared if function.name in allowed)

    @property
    def calling_mode(self) -> str:
        return str(self._calling.get("mode") or "AUTO").upper()

    @property
    def _calling(self) -> JsonObject:
        return _object(self.request.tool_config, "functionCallingConfig")

    @property
    def thinks_aloud(self) -> bool:
        if self.variant == "think":
            return True
        shown = _object(self.request.generation, "thinkingConfig").get("includeThoughts") is True
        return shown and _THINKING.search(self.gist) is not None

    @property
    def candidates(self) -> int:
        return min(_count(self.request.generation, "candidateCount") or 1, MOST_CANDIDATES)

    @property
    def most_tokens(self) -> int:
        return min(_count(self.request.generation, "maxOutputTokens") or OUTPUT_LIMIT, OUTPUT_LIMIT)

    @property
    def stops(self) -> list[str]:
        stops = self.request.generation.get("stopSequences")
        return [stop for stop in stops if isinstance(stop, str) and stop] if isinstance(stops, list) else []

    @property
    def mime_type(self) -> str:
        return str(self.request.generation.get("responseMimeType") or "text/plain")

    @property
    def answer_schema(self) -> JsonObject | None:
        generation = self.request.generation
        schema = generation.get("responseJsonSchema") or generation.get("responseSchema")
        return schema if isinstance(schema, dict) else None

    @cached_property
    def prompt_tokens(self) -> int:
        turns = self.request.contents + ((self.request.system,) if self.request.system else ())
        spoken = sum(_characters(part) for turn in turns for part in turn.parts)
        declared = request_to_json(self.request).get("tools")
        return tokens(spoken + (len(orjson.dumps(declared, default=dict)) if declared else 0))


def read(model: str, body: JsonObject, variants: Container[str]) -> DemoRequest:
    request = request_from_json(model.removeprefix("models/"), body)
    return DemoRequest(request, _variant(request, variants))


def _variant(request: GenerateRequest, variants: Container[str]) -> str | None:
    return next((name for name in _variants_asked_for(request) if name in variants), None)


def _variants_asked_for(request: GenerateRequest) -> Iterator[str]:
    if request.model.startswith("demo-"):
        yield request.model.removeprefix("demo-")
    for text in _last_texts(request):
        yield from map(str.lower, _MARK.findall(text))


def _last_texts(request: GenerateRequest) -> list[str]:
    """The texts of the user's last turn with text; turns with tool results may follow it."""
    for content in reversed(request.contents):
        if content.role != MODEL and (
            texts := [part.data for part in content.parts if isinstance(part.data, str)]
        ):
            return texts
    return []


def _unwrapped(text: str) -> str:
    """The text without the wrappings of agents."""
    for name in _WRAPPERS:
        first, *rest = text.split(f"<{name}>")
        text = first + "".join(_after(f"</{name}>", piece) for piece in rest)
    return text


def _after(mark: str, text: str) -> str:
    before, found, after = text.partition(mark)
    return after if found else before


def _last_turn(request: GenerateRequest) -> tuple[Part, ...]:
    last = request.contents[-1] if request.contents else Content(None)
    return last.parts if last.role != MODEL else ()


def _object(fields: JsonObject, key: str) -> JsonObject:
    value = fields.get(key)
    return value if isinstance(value, dict) else {}


def _count(fields: JsonObject, key: str) -> int | None:
    value = fields.get(key)
    return value if type(value) is int and value > 0 else None


def _characters(part: Part) -> int:
    match part.data:
        case str() as text:
            return len(text)
        case FunctionCall(args=value) | FunctionResponse(response=value):
            return len(orjson.dumps(value, default=dict))
        case None:
            return 0
    return TOKENS_PER_MEDIUM * CHARACTERS_PER_TOKEN
