"""The Developer API by way of Google's own package, `google-generativeai`, which is no longer developed.

It drops what it does not know, without a word: thoughts, signatures, JSON schemas, newer settings. So a
request that needs such a thing is refused by name, or sent over REST, as the operator decided; what is sent
by the package loses nothing. The package is an extra, and imported only when this upstream was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from bridge.errors import BridgeError, InvalidRequest, UpstreamMisconfigured
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.gemini.wire import request_to_json
from bridge.settings import Settings, SettingsError
from bridge.settings.models import ModelTable
from bridge.upstream.auth.credentials import ApiKeyCredentials, Credential, CredentialSource
from bridge.upstream.base import ChunkStream, Upstream
from bridge.upstream.capabilities import Capability
from bridge.upstream.cooldowns import Cooldowns
from bridge.upstream.extras import needing
from bridge.upstream.gemini import GeminiUpstream
from bridge.upstream.payloads import json_bytes
from bridge.upstream.rest import timeouts_from
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
        Capability.THOUGHTS: "dropped by the package, so they are not asked for",
        Capability.SIGNATURES: "dropped by the package",
        Capability.THINKING: "dropped by the package",
        Capability.SCHEMA_TOOLS: "dropped by the package; tools without parameters pass",
        Capability.SCHEMA_ANSWERS: "dropped by the package",
        Capability.SEED: "dropped by the package",
        Capability.RESULT_MEDIA: "dropped by the package",
        Capability.WHOLE_NUMBERS: "made floats by the package; above 2⁵³ they are rounded",
        Capability.NEW_FIELDS: "dropped by the package",
        Capability.FINISH_REASONS: "dropped by the package, so that the answer counts as cut",
        Capability.USAGE_DETAILS: "dropped by the package",
        Capability.STREAM_ERRORS: "dropped by the package, so that the answer counts as cut",
        Capability.NO_STORAGE: "dropped by the package; it starts only with `upstream.store = true`",
    }

    def __init__(
        self,
        package: Package,
        access: CredentialSource,
        timeouts: Timeouts,
        models: ModelTable,
        rest: Upstream | None = None,
    ) -> None:
        """`rest` takes what the package cannot carry; without it that is refused."""
        self.home = package.address
        self._package = package
        self._credentials = access
        self._timeouts = timeouts
        self._models = models
        self._rest = rest
        lost = "; ".join(ability.value for ability in self.CANNOT)
        self.notices = (NOTICE.format(lost=lost, handled=HANDLED["rest" if rest else "refuse"]),)

    @classmethod
    def from_settings(cls, settings: Settings, cooldowns: Cooldowns) -> SdkUpstream:
        with needing("sdk", settings):
            from bridge.upstream.sdk.package import Package
        upstream, timeouts = settings.upstream, timeouts_from(settings)
        if not upstream.api_keys:
            raise SettingsError("upstream.transport is sdk, but there is no key: set GEMINI_API_KEY")
        if not upstream.store:
            raise SettingsError(
                "upstream.transport is sdk, and google-generativeai cannot tell Google to keep nothing: "
                'set upstream.store = true if Google may keep prompts, or transport = "gemini"'
            )
        return cls(
            Package(upstream.base_url, timeouts, settings.server.threads),
            ApiKeyCredentials(upstream.api_keys, upstream.key_cooldown, cooldowns),
            timeouts,
            settings.models,
            GeminiUpstream.from_settings(settings, cooldowns) if upstream.sdk_losses == "rest" else None,
        )

    def stream(self, request: GenerateRequest) -> ChunkStream:
        body = _without_idle_wishes(request_to_json(request))
        if lost := self._package.lost(body) or self._signatures_to_come(request):
            return self._over_rest(lost).stream(request)
        message = self._package.request(request.model, body)
        ask = partial(self._package.stream, message, json_bytes(body))
        asking = partial(self._first_let_in, request.model, ask, request.conversation)
        return ReaderStream(asking, self._timeouts)

    def count_tokens(self, request: GenerateRequest) -> int:
        body = _without_idle_wishes(request_to_json(request))
        if lost := self._package.lost(body):
            return self._over_rest(lost).count_tokens(request)
        return self._first_let_in(request.model, partial(self._package.count, request.model, body))

    def unary_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        if method not in self._package.short_calls:
            return super().unary_call(model, method, body)
        if lost := self._package.lost(body, method):
            return self._over_rest(lost).unary_call(model, method, body)
        return self._first_let_in(model, partial(self._package.unary_call, model, method, body))

    def models(self) -> Sequence[JsonObject]:
        listed = self._first_let_in("", self._package.models)
        return [model for model in listed if "generateContent" in model.get("supportedGenerationMethods", ())]

    # --- what the package loses ----------------------------------------------------------------------

    def _signatures_to_come(self, request: GenerateRequest) -> list[str]:
        """Of calls that could not be gone on from without them."""
        capabilities = self._models.capabilities(request.model.removeprefix("models/"))
        called = any(tool.functions for tool in request.tools)
        return ["thoughtSignature"] if called and capabilities.needs_signatures else []

    def _over_rest(self, lost: Sequence[str]) -> Upstream:
        if self._rest is not None:
            return self._rest
        named = ", ".join(lost[:MOST_NAMED]) + (" and more" if len(lost) > MOST_NAMED else "")
        raise InvalidRequest(
            f"This bridge speaks to Gemini by google-generativeai, which cannot carry {named}. "
            'The administrator can set upstream.sdk_losses to "rest", or another transport.',
            param=lost[0],
        )

    # --- asking --------------------------------------------------------------------------------------

    def _first_let_in(self, model: str, ask: Callable[[str], T], conversation: str = "") -> T:
        """What `ask` gives for the first key that is let in; for a thread that may wait."""
        refusal: BridgeError = UpstreamMisconfigured("The bridge has nothing to show to Gemini.")
        for credential in self._credentials.credentials(model, conversation):
            if not isinstance(credential, Credential):
                continue
            try:
                return self._package.asked(partial(ask, credential.secret), credential, model)
            except BridgeError as error:
                refusal = error
            if not self._credentials.refused(credential, refusal.status, refusal, model):
                break
        raise refusal


def _without_idle_wishes(body: dict[str, Any]) -> dict[str, Any]:
    """The bridge asks every model that thinks to show it; what would only be dropped need not be asked."""
    generation = body.get("generationConfig")
    wish = generation.get("thinkingConfig") if isinstance(generation, dict) else None
    if not isinstance(generation, dict) or not isinstance(wish, dict) or wish.keys() != {"includeThoughts"}:
        return body
    kept = {name: value for name, value in generation.items() if name != "thinkingConfig"}
    return {**body, "generationConfig": kept}
