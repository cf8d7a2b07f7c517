"""The Developer API through Google's package `google-generativeai`, which is no longer developed.

The package silently drops fields that it does not know: thoughts, signatures, JSON schemas, newer settings.
So a request with such a field is refused with the name of the field, or sent over REST, as the operator
configured. The package is an extra, and is imported only if this upstream is configured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from bridge.errors import BridgeError, InvalidRequest, UpstreamMisconfigured
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.gemini.wire import request_to_json
from bridge.settings import Settings, SettingsError, UpstreamRow
from bridge.settings.models import ModelTable
from bridge.settings.sections import GEMINI_ADDRESS
from bridge.upstream.auth.credentials import ApiKeyCredentials, Credential, CredentialSource
from bridge.upstream.base import ChunkStream, Upstream
from bridge.upstream.capabilities import Capability
from bridge.upstream.cooldowns import Cooldowns
from bridge.upstream.extras import needing
from bridge.upstream.gemini import GeminiUpstream
from bridge.upstream.http_upstream import timeouts_of
from bridge.upstream.payloads import json_bytes
from bridge.upstream.sdk.reader import ReaderStream
from bridge.upstream.transport.http_response import Timeouts

if TYPE_CHECKING:
    from bridge.upstream.sdk.package import Package

__all__ = ["SdkUpstream"]

T = TypeVar("T")

MOST_NAMED = 5
NOTICE = "upstream sdk: google-generativeai cannot carry: {lost}. Requests that need it are {handled}"
HANDLED = {"refuse": "refused", "rest": "sent over REST"}


class SdkUpstream(Upstream):
    CANNOT: ClassVar = {
        Capability.THOUGHTS: "dropped by the package, so they are not requested",
        Capability.SIGNATURES: "dropped by the package",
        Capability.THINKING: "dropped by the package",
        Capability.SCHEMA_TOOLS: "dropped by the package; tools without parameters work",
        Capability.SCHEMA_ANSWERS: "dropped by the package",
        Capability.SEED: "dropped by the package",
        Capability.RESULT_MEDIA: "dropped by the package",
        Capability.WHOLE_NUMBERS: "converted to floats by the package; above 2⁵³ they are rounded",
        Capability.NEW_FIELDS: "dropped by the package",
        Capability.FINISH_REASONS: "dropped by the package, so the answer counts as truncated",
        Capability.USAGE_DETAILS: "dropped by the package",
        Capability.STREAM_ERRORS: "dropped by the package, so the answer counts as truncated",
        Capability.NO_STORAGE: "dropped by the package, so `upstream.store = true` is required",
    }

    def __init__(
        self,
        package: Package,
        credentials: CredentialSource,
        timeouts: Timeouts,
        models: ModelTable,
        rest: Upstream | None = None,
    ) -> None:
        """`rest` sends requests that the package cannot carry; without `rest` they are refused."""
        self.home = package.address
        self._package = package
        self._credentials = credentials
        self._timeouts = timeouts
        self._models = models
        self._rest = rest
        lost = "; ".join(capability.value for capability in self.CANNOT)
        self.notices = (NOTICE.format(lost=lost, handled=HANDLED["rest" if rest else "refuse"]),)

    @classmethod
    def from_row(cls, row: UpstreamRow, settings: Settings, cooldowns: Cooldowns) -> SdkUpstream:
        with needing("sdk", row):
            from bridge.upstream.sdk.package import Package
        _check(row, settings)
        timeouts = timeouts_of(row, settings)
        return cls(
            Package(row.base_url or GEMINI_ADDRESS, timeouts, settings.server.threads),
            ApiKeyCredentials(row.api_keys, row.key_cooldown, cooldowns),
            timeouts,
            settings.models,
            GeminiUpstream.from_row(row, settings, cooldowns)
            if settings.upstream.sdk_losses == "rest"
            else None,
        )

    def stream(self, request: GenerateRequest) -> ChunkStream:
        body = _without_default_thinking(request_to_json(request))
        if lost := self._package.lost(body) or self._missing_signatures(request):
            return self._over_rest(lost).stream(request)
        message = self._package.request(request.model, body)
        call = partial(self._package.stream, message, json_bytes(body))
        start = partial(self._with_accepted_key, request.model, call, request.conversation)
        return ReaderStream(start, self._timeouts)

    def count_tokens(self, request: GenerateRequest) -> int:
        body = _without_default_thinking(request_to_json(request))
        if lost := self._package.lost(body):
            return self._over_rest(lost).count_tokens(request)
        return self._with_accepted_key(request.model, partial(self._package.count, request.model, body))

    def unary_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        if method not in self._package.unary_methods:
            return super().unary_call(model, method, body)
        if lost := self._package.lost(body, method):
            return self._over_rest(lost).unary_call(model, method, body)
        return self._with_accepted_key(model, partial(self._package.unary_call, model, method, body))

    def models(self) -> Sequence[JsonObject]:
        listed = self._with_accepted_key("", self._package.models)
        return [model for model in listed if "generateContent" in model.get("supportedGenerationMethods", ())]

    # --- fields that the package drops ---------------------------------------------------------------

    def _missing_signatures(self, request: GenerateRequest) -> list[str]:
        """The next request would need the signatures of calls, which the package drops."""
        capabilities = self._models.capabilities(request.model.removeprefix("models/"))
        called = any(tool.functions for tool in request.tools)
        return ["thoughtSignature"] if called and capabilities.needs_signatures else []

    def _over_rest(self, lost: Sequence[str]) -> Upstream:
        if self._rest is not None:
            return self._rest
        named = ", ".join(lost[:MOST_NAMED]) + (" and more" if len(lost) > MOST_NAMED else "")
        raise InvalidRequest(
            f"This bridge uses google-generativeai, which cannot carry {named}. "
            'The administrator can set upstream.sdk_losses to "rest", or choose another transport.',
            param=lost[0],
        )

    # --- calls ---------------------------------------------------------------------------------------

    def _with_accepted_key(self, model: str, call: Callable[[str], T], conversation: str = "") -> T:
        """The result of `call` with the first key that the upstream accepts; blocks its thread."""
        refusal: BridgeError = UpstreamMisconfigured("The bridge has no credential for Gemini.")
        for credential in self._credentials.credentials(model, conversation):
            if not isinstance(credential, Credential):
                continue
            try:
                return self._package.run(partial(call, credential.secret), credential, model)
            except BridgeError as error:
                refusal = error
            if not self._credentials.refused(credential, refusal.status, refusal, model):
                break
        raise refusal


def _check(row: UpstreamRow, settings: Settings) -> None:
    if not row.api_keys:
        raise SettingsError(f"{row.place}, but no API key is set: set {row.key_setting}")
    if row.proxy or row.ca:
        raise SettingsError(
            f"{row.place}, and google-generativeai uses only the proxy and the CA bundle of the environment: "
            "remove proxy and ca"
        )
    if not settings.upstream.store:
        raise SettingsError(
            f"{row.place}, and google-generativeai cannot tell Google not to store data: "
            'set upstream.store = true if Google may store prompts, or transport = "gemini"'
        )


def _without_default_thinking(body: dict[str, Any]) -> dict[str, Any]:
    """The body without the default request for thoughts, which the package would drop."""
    generation = body.get("generationConfig")
    thinking = generation.get("thinkingConfig") if isinstance(generation, dict) else None
    if (
        not isinstance(generation, dict)
        or not isinstance(thinking, dict)
        or thinking.keys() != {"includeThoughts"}
    ):
        return body
    kept = {name: value for name, value in generation.items() if name != "thinkingConfig"}
    return {**body, "generationConfig": kept}
