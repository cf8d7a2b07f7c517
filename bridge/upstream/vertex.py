"""Vertex AI: Gemini models in a company's own Google Cloud project, with a service account instead of keys.

Requests and answers have the form of the Developer API, at other addresses. Neither API accepts the thought
signatures of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from bridge.errors import InvalidRequest
from bridge.gemini.service_tier import SERVICE_TIERS
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.gemini.wire import request_to_json
from bridge.settings import AUTO, Settings, SettingsError, UpstreamRow
from bridge.settings.upstreams import DEFAULT
from bridge.upstream.auth.access_tokens import AccessToken, TokenCredentials
from bridge.upstream.auth.credential_files import read_credentials
from bridge.upstream.auth.credentials import CredentialSource
from bridge.upstream.capabilities import Capability
from bridge.upstream.cooldowns import Cooldowns
from bridge.upstream.extras import credentials_origin, needing
from bridge.upstream.http_upstream import quoted, route_of, timeouts_of
from bridge.upstream.payloads import json_bytes, request_bytes
from bridge.upstream.rest import RestUpstream
from bridge.upstream.transport.connection_pool import OF_ENVIRONMENT, NetworkRoute, UpstreamCall
from bridge.upstream.transport.http_response import Timeouts

VERSION = "v1beta1"
GLOBAL = "global"
#: Multi-region locations; their host names have another form.
CONTINENTS = ("us", "eu")
#: countTokens refuses a request with any other field.
COUNTED = ("contents", "systemInstruction", "tools", "generationConfig")
PUBLISHED = "publishers/google/models/"


class VertexUpstream(RestUpstream):
    realm = "vertex"
    CANNOT: ClassVar = {
        Capability.KEY_ROTATION: "one service account, whose token is renewed",
        Capability.EMBEDDINGS: "Vertex AI uses another format for them",
        Capability.MODEL_LIMITS: "Vertex AI lists names only",
    }

    def __init__(
        self,
        *,
        base_url: str,
        project: str,
        location: str,
        credentials: CredentialSource,
        timeouts: Timeouts,
        pool_size: int,
        models: Sequence[str] = (),
        route: NetworkRoute = OF_ENVIRONMENT,
    ) -> None:
        super().__init__(
            base_url=base_url, credentials=credentials, timeouts=timeouts, pool_size=pool_size, route=route
        )
        self._models_path = f"/{VERSION}/projects/{quoted(project)}/locations/{quoted(location)}/{PUBLISHED}"
        self._models = models

    @classmethod
    def from_row(cls, row: UpstreamRow, settings: Settings, cooldowns: Cooldowns) -> VertexUpstream:
        timeouts = timeouts_of(row, settings)
        fetch, project = _credentials(row, settings)
        if row.project != AUTO:
            project = row.project
        if not project:
            advice = "vertex.project or GOOGLE_CLOUD_PROJECT" if row.name == DEFAULT else "project"
            raise SettingsError(f"{row.place}, but no project is set: set {advice}")
        return cls(
            base_url=row.base_url or _address(row.location),
            project=project,
            location=row.location,
            credentials=TokenCredentials(fetch, timeouts.tick),
            timeouts=timeouts,
            pool_size=settings.server.threads,
            models=row.listed,
            route=route_of(row),
        )

    def _stream_call(self, request: GenerateRequest) -> UpstreamCall:
        tier = request.service_tier
        body = request_bytes(request if tier is None else replace(request, service_tier=None))
        call = self._model_call(request.model, "streamGenerateContent?alt=sse", body, self._timeouts)
        return call if tier is None else replace(call, headers=_tier_headers(tier))

    def _count_call(self, request: GenerateRequest) -> UpstreamCall:
        body = {name: value for name, value in request_to_json(request).items() if name in COUNTED}
        return self._model_call(request.model, "countTokens", json_bytes(body), self._unary_timeouts)

    def _model_call(self, model: str, method: str, body: bytes, timeouts: Timeouts) -> UpstreamCall:
        model = _bare(model)
        return self._post(f"{self._models_path}{quoted(model)}:{method}", body, timeouts, model)

    def models(self) -> Sequence[JsonObject]:
        names = self._models or self._published()
        return tuple({"name": f"models/{_bare(name)}"} for name in names)

    def _published(self) -> list[str]:
        """Google's own models that can generate: all Gemini models except those for embeddings."""
        pages = self._pages(f"/{VERSION}/{PUBLISHED.rstrip('/')}", 100)
        listed = [model for page in pages for model in page.get("publisherModels") or ()]
        names = [_bare(str(model.get("name"))) for model in listed if isinstance(model, dict)]
        return [name for name in names if name.startswith("gemini") and "embedding" not in name]


def _tier_headers(tier: str) -> tuple[tuple[str, str], ...]:
    """Vertex AI refuses `serviceTier` in the body and reads these headers. Only some locations support
    them; the answer's `trafficType` names the tier that was used."""
    if tier not in SERVICE_TIERS:
        raise InvalidRequest(f"Vertex AI has no service tier {tier[:32]!r}", param="serviceTier")
    return (("X-Vertex-AI-LLM-Request-Type", "shared"), ("X-Vertex-AI-LLM-Shared-Request-Type", tier))


def _bare(model: str) -> str:
    return model.removeprefix(PUBLISHED).removeprefix("models/")


def _address(location: str) -> str:
    if location == GLOBAL:
        return "https://aiplatform.googleapis.com"
    if location in CONTINENTS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _credentials(row: UpstreamRow, settings: Settings) -> tuple[Callable[[], AccessToken], str | None]:
    """The token fetcher, and the project of the credentials if their file names one."""
    with needing("vertex", row):
        from bridge.upstream.auth import google_auth
    path = row.credentials
    if path == Path(AUTO):
        return google_auth.TokenFetcher(google_auth.of_this_machine), None
    origin = credentials_origin(row, settings)
    info = read_credentials(origin, path)
    try:
        find = google_auth.of_file(path, info)
    except ValueError:
        raise SettingsError(f"{origin}: {path} contains no usable service account key") from None
    project = info.get("project_id")
    return google_auth.TokenFetcher(find), project if isinstance(project, str) else None
