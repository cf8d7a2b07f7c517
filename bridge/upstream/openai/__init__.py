"""A server that speaks Chat Completions: vLLM, llama.cpp, DeepSeek and many others, each with its dialect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from bridge.errors import BridgeError, UpstreamMalformed
from bridge.gemini.generation import estimated_tokens
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.settings import Settings, SettingsError, UpstreamRow
from bridge.settings.sections import GEMINI_ADDRESS
from bridge.settings.value import suggestion
from bridge.upstream.auth.credentials import ApiKeyCredentials, CredentialSource, WithoutCredentials
from bridge.upstream.base import ChunkStream
from bridge.upstream.capabilities import Capability
from bridge.upstream.cooldowns import Cooldowns
from bridge.upstream.http_upstream import HttpStream, HttpUpstream, route_of, timeouts_of
from bridge.upstream.masking import Mask
from bridge.upstream.openai.answer import AskedFor, ChatAnswer
from bridge.upstream.openai.counting import CountMethod, window_of
from bridge.upstream.openai.dialects import DIALECTS, Dialect
from bridge.upstream.openai.embeddings import embedding_body, google_answer, requests_in, vectors_in
from bridge.upstream.openai.errors import error_from_body, error_in
from bridge.upstream.openai.reader import ChatReader
from bridge.upstream.openai.request import chat_body, losses_of, model_name, shows_thoughts
from bridge.upstream.openai.thinking import LARGEST, LEAST
from bridge.upstream.payloads import decoded, json_bytes
from bridge.upstream.transport.connection_pool import UpstreamCall
from bridge.upstream.transport.sse_decoder import SseDecoder

__all__ = ["OpenAiUpstream"]

METHODS = ["generateContent", "countTokens"]  #: of a listed model
OFF = "off"  #: the row's setting that turns thinking off


class ChatUpstream(HttpUpstream):
    """What the servers of other vendors share: errors, capabilities, and the row's thinking switch."""

    def __init__(
        self, row: UpstreamRow, settings: Settings, base_url: str, credentials: CredentialSource
    ) -> None:
        super().__init__(
            base_url=base_url,
            credentials=credentials,
            timeouts=timeouts_of(row, settings),
            pool_size=settings.server.threads,
            route=route_of(row),
            server=server_name(row),
        )
        self._listed = row.listed
        self._thinks = row.think != OFF

    def completed(self, capabilities: ModelCapabilities) -> ModelCapabilities:
        """These servers take a budget or a switch for thinking, and know no signatures."""
        return replace(
            capabilities,
            thinking_budget=(LEAST, LARGEST),
            thinking_can_be_off=True,
            thinking_levels=(),
            needs_signatures=False,
        )

    def check_credentials(self, model: str) -> None:
        self.models()

    def _with_switch(self, request: GenerateRequest) -> GenerateRequest:
        """The request with thinking off, if the row says so."""
        if self._thinks:
            return request
        generation = {**request.generation, "thinkingConfig": {"thinkingBudget": 0, "includeThoughts": False}}
        return replace(request, generation=generation)

    def _asked_for(self, request: GenerateRequest, cumulative_from: int) -> AskedFor:
        names = frozenset(function.name for tool in request.tools for function in tool.functions)
        estimate = estimated_tokens(request)
        return AskedFor(names, shows_thoughts(request), estimate, cumulative_from, self.server)

    def _refusal(self, status: int, body: bytes, model: str, delay: float | None) -> BridgeError:
        return error_from_body(status, body, model, delay, self.server)

    def _error_in(self, payload: JsonObject, model: str) -> BridgeError | None:
        return error_in(payload, model, self.server)


def server_name(row: UpstreamRow) -> str:
    """The name of the server in errors."""
    return f"Upstream {row.name}"


def address_of(row: UpstreamRow, usual: str) -> str:
    """The address of the row. The section [upstream] has Gemini's address unless the operator set one."""
    return row.base_url if row.base_url not in ("", GEMINI_ADDRESS) else usual


def listed_model(name: str, window: int) -> JsonObject:
    """A model as in Google's list."""
    limit = {"inputTokenLimit": window} if window else {}
    return {"name": f"models/{name}", **limit, "supportedGenerationMethods": METHODS}


def key_credentials(row: UpstreamRow, cooldowns: Cooldowns, header: str, prefix: str) -> CredentialSource:
    if not row.api_keys:
        return WithoutCredentials()
    return ApiKeyCredentials(
        row.api_keys, row.key_cooldown, cooldowns, header=header, prefix=prefix, server=server_name(row)
    )


class OpenAiUpstream(ChatUpstream):
    realm = "openai"
    CANNOT: ClassVar = {
        Capability.THINKING: "the server's own switch stands for them",
        Capability.SIGNATURES: "only Gemini signs its thoughts",
        Capability.SEARCH: "such servers have no search of Google",
        Capability.RESULT_MEDIA: "media follow the result in a message of the user",
        Capability.NEW_FIELDS: "Chat Completions has other fields",
        Capability.FINISH_REASONS: "such servers have a few finish reasons of their own",
        Capability.USAGE_DETAILS: "such servers do not count by modality",
        Capability.COUNTS: "only vLLM and llama.cpp count tokens; else the bridge estimates them",
        Capability.NO_STORAGE: "Chat Completions stores nothing unless the request asks for it",
    }

    def __init__(
        self, row: UpstreamRow, settings: Settings, cooldowns: Cooldowns, dialect: Dialect, base_url: str
    ) -> None:
        credentials = key_credentials(row, cooldowns, dialect.auth_header, dialect.auth_prefix)
        super().__init__(row, settings, base_url, credentials)
        self._dialect = dialect
        self._root = self.home.removesuffix("/v1")
        self.estimates_counts = dialect.count is None

    @classmethod
    def from_row(cls, row: UpstreamRow, settings: Settings, cooldowns: Cooldowns) -> OpenAiUpstream:
        dialect = DIALECTS.get(row.dialect)
        if dialect is None:
            raise SettingsError(
                f"{row.place}, and its dialect is {row.dialect!r}; {suggestion(row.dialect, DIALECTS)}"
            )
        if not (base_url := address_of(row, dialect.base_url)):
            raise SettingsError(
                f"{row.place}, and its dialect {row.dialect} has no usual address: set base_url"
            )
        return cls(row, settings, cooldowns, dialect, base_url)

    def losses_of(self, request: GenerateRequest) -> Sequence[str]:
        return losses_of(request, self._dialect)

    def stream(self, request: GenerateRequest) -> ChunkStream:
        request = self._with_switch(request)
        body = json_bytes(chat_body(request, self._dialect, self.server), self.server)
        call = self._post("/chat/completions", body, self._timeouts, model_name(request))
        asked = self._asked_for(request, self._dialect.cumulative_from)

        def decode(pieces: Iterator[bytes], mask: Mask) -> Iterator[Sequence[Chunk]]:
            reader = ChatReader(
                ChatAnswer(asked), lambda event: self._error_in(event, call.model), mask, self.server
            )
            return decoded(pieces, SseDecoder(self.server), reader, self.server)

        return HttpStream(self, replace(call, conversation=request.conversation), decode)

    def count_tokens(self, request: GenerateRequest) -> int:
        method = self._dialect.count
        return estimated_tokens(request) if method is None else self._counted(request, method)

    def _counted(self, request: GenerateRequest, method: CountMethod) -> int:
        chat = chat_body(self._with_switch(request), self._dialect, self.server)
        answer: JsonObject = {}
        for step in method.steps:
            body = json_bytes(step.body(chat, answer), self.server)
            answer = self._fetch_object(
                UpstreamCall(
                    "POST", f"{self._root}{step.path}", self._unary_timeouts, body, model_name(request)
                )
            )
        if type(count := method.read(answer)) is not int:
            raise UpstreamMalformed(f"The token count of {self.server} has no number.")
        return count

    def unary_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        model = model.removeprefix("models/")
        requests = requests_in(model, method, body)
        sent = json_bytes(embedding_body(model, requests), self.server)
        answer = self._fetch_object(self._post("/embeddings", sent, self._unary_timeouts, model))
        usage = answer.get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        return google_answer(method, vectors_in(answer), len(requests), tokens, self.server)

    def models(self) -> Sequence[JsonObject]:
        if self._listed:
            return [listed_model(name, 0) for name in self._listed]
        answer = self._fetch_object(UpstreamCall("GET", f"{self.home}/models", self._unary_timeouts))
        return listed_models(answer.get("data"))


def listed_models(data: Any) -> list[JsonObject]:
    """The models of a `/models` answer."""
    models = [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []
    return [
        listed_model(model["id"], window_of(model)) for model in models if isinstance(model.get("id"), str)
    ]
