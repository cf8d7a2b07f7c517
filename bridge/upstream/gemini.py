"""The Gemini Developer API, with API keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.settings import Settings, SettingsError
from bridge.upstream.auth.credentials import ApiKeyCredentials
from bridge.upstream.cooldowns import Cooldowns, LocalCooldowns
from bridge.upstream.http_upstream import quoted, timeouts_from
from bridge.upstream.payloads import count_request_bytes, json_bytes, request_bytes
from bridge.upstream.rest import RestUpstream
from bridge.upstream.transport.connection_pool import UpstreamCall
from bridge.upstream.transport.http_response import Timeouts


class GeminiUpstream(RestUpstream):
    def __init__(
        self,
        *,
        base_url: str,
        keys: tuple[str, ...],
        timeouts: Timeouts,
        key_cooldown: float,
        pool_size: int,
        cooldowns: Cooldowns | None = None,
    ) -> None:
        credentials = ApiKeyCredentials(keys, key_cooldown, cooldowns or LocalCooldowns())
        super().__init__(base_url=base_url, credentials=credentials, timeouts=timeouts, pool_size=pool_size)

    @classmethod
    def from_settings(cls, settings: Settings, cooldowns: Cooldowns) -> GeminiUpstream:
        upstream = settings.upstream
        if not upstream.api_keys:
            raise SettingsError(
                f"upstream.transport is {settings.transport_in_force}, but no API key is set: "
                "set GEMINI_API_KEY"
            )
        return cls(
            base_url=upstream.base_url,
            keys=upstream.api_keys,
            timeouts=timeouts_from(settings),
            key_cooldown=upstream.key_cooldown,
            pool_size=settings.server.threads,
            cooldowns=cooldowns,
        )

    def _stream_call(self, request: GenerateRequest) -> UpstreamCall:
        return self._model_call(
            request.model, "streamGenerateContent?alt=sse", request_bytes(request), self._timeouts
        )

    def _count_call(self, request: GenerateRequest) -> UpstreamCall:
        return self._model_call(
            request.model, "countTokens", count_request_bytes(request), self._unary_timeouts
        )

    def unary_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        return self._fetch_object(self._model_call(model, method, json_bytes(body), self._unary_timeouts))

    def _model_call(self, model: str, method: str, body: bytes, timeouts: Timeouts) -> UpstreamCall:
        model = model.removeprefix("models/")
        return self._post(f"/v1beta/models/{quoted(model)}:{method}", body, timeouts, model)

    def models(self) -> Sequence[JsonObject]:
        pages = self._pages("/v1beta/models", 1000)
        return tuple(model for page in pages for model in _able_to_generate(page.get("models")))


def _able_to_generate(models: Any) -> list[JsonObject]:
    listed = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return [model for model in listed if "generateContent" in _methods(model)]


def _methods(model: JsonObject) -> Sequence[str]:
    methods = model.get("supportedGenerationMethods")
    return methods if isinstance(methods, list) else ()
