"""The Gemini Developer API, with API keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.settings import Settings, SettingsError, UpstreamRow
from bridge.settings.sections import GEMINI_ADDRESS
from bridge.upstream.auth.credentials import ApiKeyCredentials
from bridge.upstream.cooldowns import Cooldowns, LocalCooldowns
from bridge.upstream.http_upstream import quoted, route_of, timeouts_of
from bridge.upstream.payloads import count_request_bytes, json_bytes, request_bytes
from bridge.upstream.rest import RestUpstream
from bridge.upstream.transport.connection_pool import OF_ENVIRONMENT, NetworkRoute, UpstreamCall
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
        route: NetworkRoute = OF_ENVIRONMENT,
    ) -> None:
        super().__init__(
            base_url=base_url,
            credentials=ApiKeyCredentials(keys, key_cooldown, cooldowns or LocalCooldowns()),
            timeouts=timeouts,
            pool_size=pool_size,
            route=route,
        )

    @classmethod
    def from_row(cls, row: UpstreamRow, settings: Settings, cooldowns: Cooldowns) -> GeminiUpstream:
        if not row.api_keys:
            raise SettingsError(f"{row.place}, but no API key is set: set {row.key_setting}")
        return cls(
            base_url=row.base_url or GEMINI_ADDRESS,
            keys=row.api_keys,
            timeouts=timeouts_of(row, settings),
            key_cooldown=row.key_cooldown,
            pool_size=settings.server.threads,
            cooldowns=cooldowns,
            route=route_of(row),
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
