"""Answers of the bridge, each with the schemas that its vendor's clients expect it to follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson
import requests
from sdk_schemas import TYPES, sdk_schemas
from transcripts import NAMES, VARIANTS, Run, TranscriptVariant, chunks_of
from vendor_schemas import VendorSchemas, document

from bridge.gemini.types import Chunk
from bridge.protocols.base import Event

#: For each kind of answer the documents that describe it, and the schema's name there.
EXPECTED: Mapping[str, Mapping[str, str]] = {
    "chat body": {"openai": "CreateChatCompletionResponse", "openai_sdk": "ChatCompletion"},
    "chat event": {"openai": "CreateChatCompletionStreamResponse", "openai_sdk": "ChatCompletionChunk"},
    "completions body": {"openai": "CreateCompletionResponse", "openai_sdk": "Completion"},
    "completions event": {"openai": "CreateCompletionResponse", "openai_sdk": "Completion"},
    "embeddings body": {"openai": "CreateEmbeddingResponse", "openai_sdk": "CreateEmbeddingResponse"},
    "responses body": {"openai": "Response", "openresponses": "ResponseResource", "openai_sdk": "Response"},
    "responses event": {
        "openai": "ResponseStreamEvent",
        "openresponses": "StreamEvent",
        "openai_sdk": "ResponseStreamEvent",
    },
    "responses items": {"openai": "ResponseItemList", "openai_sdk": "ResponseItemList"},
    "responses count": {"openai": "TokenCountsResource", "openai_sdk": "InputTokenCountResponse"},
    "responses compacted": {"openai": "CompactResource", "openresponses": "CompactResource"},
    "conversation": {"openai": "ConversationResource", "openai_sdk": "Conversation"},
    "conversation item": {"openai": "ConversationItem", "openai_sdk": "ConversationItem"},
    "conversation items": {"openai": "ConversationItemList", "openai_sdk": "ConversationItemList"},
    "conversation deleted": {
        "openai": "DeletedConversationResource",
        "openai_sdk": "ConversationDeletedResource",
    },
    "messages body": {"anthropic_sdk": "Message", "anthropic_beta_sdk": "Message"},
    "messages event": {"anthropic_sdk": "MessageStreamEvent", "anthropic_beta_sdk": "MessageStreamEvent"},
    "messages count": {"anthropic_sdk": "MessageTokensCount"},
    "messages model": {"anthropic_sdk": "ModelInfo"},
    "messages error": {"anthropic_sdk": "ErrorResponse"},
    "native body": {"google_sdk": "GenerateContentResponse"},
    "native event": {"google_sdk": "GenerateContentResponse"},
    "interactions body": {"google_sdk": "Interaction"},
    "interactions event": {"google_sdk": "InteractionSSEEvent"},
    "google error": {"google_sdk": "GoogleError"},
    "openai models": {"openai": "ListModelsResponse"},
    "openai model": {"openai": "Model", "openai_sdk": "Model"},
    "openai error": {"openai": "ErrorResponse"},
}


class Answer(NamedTuple):
    """One body or one event."""

    source: str  #: the transcript or the request it came of
    dialect: str  #: of Responses; empty elsewhere
    kind: str
    value: Any


class Cause(NamedTuple):
    """A finding without what differs between answers that are wrong for the same reason."""

    document: str
    component: str
    path: str
    rule: str

    def __str__(self) -> str:
        where = f"{self.component}.{self.path}" if self.path else self.component
        return f"{self.document} {where} {self.rule}"


class Findings:
    """All findings of many answers, with one example of each."""

    def __init__(self) -> None:
        self.checks = 0
        self._counts: Counter[tuple[str, Cause]] = Counter()
        self._examples: dict[tuple[str, Cause], str] = {}

    def add(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            for name, component in EXPECTED[answer.kind].items():
                self.checks += 1
                for finding in schemas(name).findings(component, answer.value):
                    key = answer.dialect, Cause(name, *finding.cause)
                    self._counts[key] += 1
                    self._examples.setdefault(key, f"{answer.source}, {answer.kind}: {finding}")

    def causes(self) -> dict[str, tuple[int, str]]:
        """How often each occurs, and an example.

        A dialect of Responses is named where the vendor's dialect does not have the same cause.
        """
        official = {cause for dialect, cause in self._counts if dialect in OFFICIAL}
        found: dict[str, tuple[int, str]] = {}
        for (dialect, cause), count in self._counts.items():
            if dialect in OFFICIAL or cause not in official:
                label = str(cause) if dialect in OFFICIAL else f"{dialect}: {cause}"
                before, example = found.get(label, (0, self._examples[dialect, cause]))
                found[label] = before + count, example
        return found


OFFICIAL = ("", "openai")


def schemas(name: str) -> VendorSchemas:
    return sdk_schemas(name) if name in TYPES else document(name)


# --- recorded streams --------------------------------------------------------------------------------

_PROTOCOLS = {
    "openai_chat": "chat",
    "openai_completions": "completions",
    "openai_responses": "responses",
    "anthropic_messages": "messages",
    "gemini_native": "native",
    "gemini_interactions": "interactions",
}
CHECKED_CALLERS = [told for told in VARIANTS if told.protocol.name in _PROTOCOLS]


def of_transcripts() -> Iterator[Answer]:
    for told in CHECKED_CALLERS:
        for name in NAMES:
            yield from of_transcript(name, told)


def of_transcript(name: str, told: TranscriptVariant) -> Iterator[Answer]:
    return of_run(told.run(), chunks_of(name), f"transcript {name}", told)


def of_run(run: Run, chunks: Iterable[Chunk], source: str, told: TranscriptVariant) -> Iterator[Answer]:
    """The events of an answer, and the body that is made of them."""
    prefix = _PROTOCOLS[told.protocol.name]
    dialect = (told.caller.removeprefix(".") or "bridge") if prefix == "responses" else ""
    events = run.whole(chunks)
    yield from of_events(events, source, dialect, prefix)
    if run.machine.error is None:
        yield Answer(source, dialect, f"{prefix} body", run.machine.fold(events))


def of_events(events: Iterable[Event], source: str, dialect: str, prefix: str) -> Iterator[Answer]:
    for event in events:
        if event.data is not None:
            yield Answer(source, dialect, _event_kind(prefix, event.data), event.data)


def _event_kind(prefix: str, data: Mapping[str, Any]) -> str:
    if prefix in ("chat", "completions"):
        return "openai error" if "error" in data else f"{prefix} event"
    if prefix == "messages" and data.get("type") == "error":
        return "messages error"
    if prefix == "native" and "error" in data:
        return "google error"
    return f"{prefix} event"


# --- answers over HTTP -------------------------------------------------------------------------------

_PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "interactions": "/v1beta/interactions",
}


class Asked(NamedTuple):
    """A request of one protocol, to be sent to a model."""

    prefix: str
    body: Mapping[str, Any]
    dialect: str = ""

    def answers(self, address: str, model: str, *, stream: bool, source: str) -> Iterator[Answer]:
        headers = {"x-bridge-dialect": self.dialect} if self.dialect else {}
        with requests.post(
            address + self._path(model, stream=stream),
            json=self._body(model, stream=stream),
            headers=headers,
            timeout=60,
        ) as got:
            if got.status_code != 200:
                yield Answer(source, self.dialect, error_kind(self.prefix), got.json())
            elif stream:
                yield from of_stream(got.content, source, self.dialect, self.prefix)
            else:
                yield Answer(source, self.dialect, f"{self.prefix} body", got.json())

    def _path(self, model: str, *, stream: bool) -> str:
        if self.prefix != "native":
            return _PATHS[self.prefix]
        return f"/v1beta/models/{model}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"

    def _body(self, model: str, *, stream: bool) -> Mapping[str, Any]:
        return self.body if self.prefix == "native" else {**self.body, "model": model, "stream": stream}


def of_stream(stream: bytes, source: str, dialect: str, prefix: str) -> Iterator[Answer]:
    for event in stream.split(b"\n\n"):
        data = event.partition(b"data: ")[2]
        if data and data != b"[DONE]":
            value = orjson.loads(data)
            yield Answer(source, dialect, _event_kind(prefix, value), value)


_ERROR_KINDS = {"messages": "messages error", "native": "google error", "interactions": "google error"}


def error_kind(prefix: str) -> str:
    return _ERROR_KINDS.get(prefix, "openai error")
