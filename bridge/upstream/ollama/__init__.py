"""Ollama, by its own API: its OpenAI side ignores the context window and the switch for thinking.

Without a context window in the request, Ollama uses a small one and cuts the front of a longer prompt, tools
included, without an error. So each request names the window, and a prompt that may not fit is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from bridge.errors import ContextOverflow
from bridge.gemini.generation import estimated_tokens
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject
from bridge.settings import Settings, UpstreamRow
from bridge.upstream.base import ChunkStream
from bridge.upstream.capabilities import Capability
from bridge.upstream.cooldowns import Cooldowns
from bridge.upstream.http_upstream import HttpStream
from bridge.upstream.masking import Mask
from bridge.upstream.ollama.answer import translator
from bridge.upstream.ollama.lines import LineDecoder
from bridge.upstream.ollama.models import ShownModel, shown_model
from bridge.upstream.ollama.request import chat_body, losses_of
from bridge.upstream.openai import ChatUpstream, address_of, key_credentials, listed_model
from bridge.upstream.openai.answer import ChatAnswer
from bridge.upstream.openai.embeddings import embedding_body, google_answer, requests_in
from bridge.upstream.openai.reader import ChatReader
from bridge.upstream.openai.request import model_name
from bridge.upstream.payloads import decoded, json_bytes
from bridge.upstream.transport.connection_pool import UpstreamCall

__all__ = ["OllamaUpstream"]

BASE_URL = "http://127.0.0.1:11434"
SHOWN_FOR = 300.0  #: seconds until a model is looked up again
MOST_MODELS = 100  #: more models are not listed, because each one takes a call
#: Ollama sends increments only, so no text is taken for a repeated one.
NEVER_CUMULATIVE = 1 << 60


class OllamaUpstream(ChatUpstream):
    realm = "ollama"
    CANNOT: ClassVar = {
        Capability.THINKING: "Ollama turns thinking only on and off",
        Capability.SIGNATURES: "only Gemini signs its thoughts",
        Capability.SEARCH: "Ollama has no search of Google",
        Capability.RESULT_MEDIA: "media follow the result in a message of the user",
        Capability.MEDIA_ADDRESSES: "Ollama fetches no addresses",
        Capability.CALL_IDS: "Ollama pairs calls and results by name and order",
        Capability.NEW_FIELDS: "Ollama's API has other fields",
        Capability.FINISH_REASONS: "Ollama has a few finish reasons of its own",
        Capability.USAGE_DETAILS: "Ollama does not count by modality",
        Capability.COUNTS: "Ollama cannot count tokens, so the bridge estimates them",
        Capability.NO_STORAGE: "Ollama stores nothing",
    }
    estimates_counts = True

    def __init__(self, row: UpstreamRow, settings: Settings, cooldowns: Cooldowns) -> None:
        credentials = key_credentials(row, cooldowns, "Authorization", "Bearer ")
        super().__init__(row, settings, address_of(row, BASE_URL), credentials)
        self._shown: dict[str, tuple[float, ShownModel]] = {}

    @classmethod
    def from_row(cls, row: UpstreamRow, settings: Settings, cooldowns: Cooldowns) -> OllamaUpstream:
        return cls(row, settings, cooldowns)

    def losses_of(self, request: GenerateRequest) -> Sequence[str]:
        return losses_of(request)

    def stream(self, request: GenerateRequest) -> ChunkStream:
        request = self._with_switch(request)
        model = model_name(request)
        shown = self._model(model)
        self._check_window(request, shown.window)
        body = chat_body(request, shown.window, thinks=shown.thinks, server=self.server)
        call = self._post("/api/chat", json_bytes(body, self.server), self._timeouts, model)
        asked = self._asked_for(request, NEVER_CUMULATIVE)

        def decode(pieces: Iterator[bytes], mask: Mask) -> Iterator[Sequence[Chunk]]:
            reader = ChatReader(
                ChatAnswer(asked),
                lambda event: self._error_in(event, model),
                mask,
                self.server,
                translator(self.server),
            )
            return decoded(pieces, LineDecoder(self.server), reader, self.server)

        return HttpStream(self, replace(call, conversation=request.conversation), decode)

    def _check_window(self, request: GenerateRequest, window: int) -> None:
        tokens = estimated_tokens(request)
        if tokens > window:
            error = ContextOverflow(
                f"The prompt has about {tokens} tokens, and the window of the model has {window}"
            )
            error.tokens, error.limit = tokens, window
            raise error

    def _model(self, name: str) -> ShownModel:
        known = self._shown.get(name)
        if known is not None and time.monotonic() - known[0] < SHOWN_FOR:
            return known[1]
        body = json_bytes({"model": name}, self.server)
        shown = shown_model(self._fetch_object(self._post("/api/show", body, self._unary_timeouts, name)))
        self._shown[name] = time.monotonic(), shown
        return shown

    def count_tokens(self, request: GenerateRequest) -> int:
        return estimated_tokens(request)

    def unary_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        model = model.removeprefix("models/")
        requests = requests_in(model, method, body)
        sent = json_bytes(embedding_body(model, requests), self.server)
        answer = self._fetch_object(self._post("/api/embed", sent, self._unary_timeouts, model))
        tokens = answer.get("prompt_eval_count")
        return google_answer(method, answer.get("embeddings"), len(requests), tokens, self.server)

    def models(self) -> Sequence[JsonObject]:
        names = self._listed or self._tags()
        return [listed_model(name, self._model(name).window) for name in names[:MOST_MODELS]]

    def _tags(self) -> tuple[str, ...]:
        answer = self._fetch_object(UpstreamCall("GET", f"{self.home}/api/tags", self._unary_timeouts))
        models = answer.get("models")
        listed = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
        return tuple(model["name"] for model in listed if isinstance(model.get("name"), str))
