"""Code Assist: Gemini through the Google login of Gemini CLI. It wraps each request and each chunk in an
object.

The login belongs to one person, and the API is meant for Gemini CLI. The operator must check whether its
terms allow a gateway, so this upstream runs only if it is configured, and logs a notice at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from uuid import UUID, uuid4, uuid5

import orjson

from bridge.errors import UpstreamMisconfigured
from bridge.gemini.types import USER, Content, GenerateRequest, JsonObject, Part
from bridge.gemini.wire import content_to_json, request_to_json
from bridge.settings import AUTO, Settings, UpstreamRow
from bridge.settings.google import CODE_ASSIST_ADDRESS
from bridge.upstream.auth.access_tokens import TokenCredentials
from bridge.upstream.auth.credentials import CredentialSource
from bridge.upstream.auth.single_flight import SingleFlight
from bridge.upstream.base import Tick, wait_for
from bridge.upstream.capabilities import Capability
from bridge.upstream.code_assist.login import Login
from bridge.upstream.cooldowns import Cooldowns
from bridge.upstream.errors import ADMINISTRATOR
from bridge.upstream.http_upstream import AcceptedResponse, route_of, timeouts_of
from bridge.upstream.payloads import json_bytes
from bridge.upstream.rest import RestUpstream
from bridge.upstream.transport.connection_pool import OF_ENVIRONMENT, NetworkRoute, UpstreamCall
from bridge.upstream.transport.http_response import HttpResponse, Timeouts

__all__ = ["CodeAssistUpstream"]

NOTICE = (
    "upstream code_assist: this Google login is meant for Gemini CLI and its own user; "
    "check whether its terms allow you to use it with the bridge"
)
METHODS = "/v1internal:"
#: The namespace of session ids: a random constant.
SESSIONS = UUID("6b5d1c0e-0a43-4f6e-9a3c-1d2f4c7e8b90")
#: The values that Gemini CLI sends outside of an IDE.
METADATA = {"ideType": "IDE_UNSPECIFIED", "platform": "PLATFORM_UNSPECIFIED", "pluginType": "GEMINI"}


@dataclass(frozen=True, slots=True)
class _ProjectCall(UpstreamCall):
    """A call whose body needs the project, which may have to be fetched first."""

    def with_project(self, project: str) -> UpstreamCall:
        body = {
            "model": self.model,
            "project": project,
            "user_prompt_id": uuid4().hex,
            "request": orjson.Fragment(self.body or b"{}"),
        }
        return UpstreamCall(
            self.method,
            self.url,
            self.timeouts,
            orjson.dumps(body),
            self.model,
            conversation=self.conversation,
        )


class CodeAssistUpstream(RestUpstream):
    realm = "code_assist"
    notices = (NOTICE,)
    CANNOT: ClassVar = {
        Capability.COUNTS: "instruction and tools are counted as text",
        Capability.EMBEDDINGS: "Code Assist has no embeddings",
        Capability.MEDIA_ADDRESSES: "Google does not document that Code Assist fetches addresses",
        Capability.MODEL_LIMITS: "Code Assist lists names only",
        Capability.KEY_ROTATION: "one person's login, whose token is renewed",
    }

    def __init__(
        self,
        *,
        base_url: str,
        project: str | None,
        credentials: CredentialSource,
        timeouts: Timeouts,
        pool_size: int,
        models: Sequence[str] = (),
        route: NetworkRoute = OF_ENVIRONMENT,
    ) -> None:
        super().__init__(
            base_url=base_url,
            credentials=credentials,
            timeouts=timeouts,
            pool_size=pool_size,
            unwrap=_chunk_in,
            route=route,
        )
        self._project = project
        self._lookup = SingleFlight(self._fetch_project, timeouts.tick)
        self._models = models

    @classmethod
    def from_row(cls, row: UpstreamRow, settings: Settings, cooldowns: Cooldowns) -> CodeAssistUpstream:
        timeouts = timeouts_of(row, settings)
        return cls(
            base_url=row.base_url or CODE_ASSIST_ADDRESS,
            project=None if row.project == AUTO else row.project,
            credentials=TokenCredentials(Login.from_row(row, settings), timeouts.tick),
            timeouts=timeouts,
            pool_size=settings.server.threads,
            models=row.listed,
            route=route_of(row),
        )

    # --- calls ---------------------------------------------------------------------------------------

    def _stream_call(self, request: GenerateRequest) -> UpstreamCall:
        body = json_bytes({**request_to_json(request), "session_id": _session_id(request.conversation)})
        url = f"{self.home}{METHODS}streamGenerateContent?alt=sse"
        return _ProjectCall("POST", url, self._timeouts, body, request.model.removeprefix("models/"))

    def _count_call(self, request: GenerateRequest) -> UpstreamCall:
        model = request.model.removeprefix("models/")
        contents = [content_to_json(content) for content in _countable(request)]
        body = {"request": {"model": f"models/{model}", "contents": contents}}
        return self._method_call("countTokens", body, model)

    def _method_call(self, method: str, body: JsonObject, model: str = "") -> UpstreamCall:
        return self._post(f"{METHODS}{method}", json_bytes(body), self._unary_timeouts, model)

    def check_credentials(self, model: str) -> None:
        wait_for(self._known_project())  # answers need the project, token counts do not
        super().check_credentials(model)

    def models(self) -> Sequence[JsonObject]:
        names = self._models or self._with_quota()
        return tuple({"name": f"models/{name.removeprefix('models/')}"} for name in names)

    def _with_quota(self) -> list[str]:
        project = wait_for(self._known_project())
        buckets = self._fetch_object(self._method_call("retrieveUserQuota", {"project": project})).get(
            "buckets"
        )
        listed = [each for each in buckets if isinstance(each, dict)] if isinstance(buckets, list) else []
        return list(dict.fromkeys(str(each["modelId"]) for each in listed if each.get("modelId")))

    # --- the project ---------------------------------------------------------------------------------

    def accepted_response(
        self, call: UpstreamCall, on_response: Callable[[HttpResponse], None] = lambda _response: None
    ) -> Generator[Tick, None, AcceptedResponse]:
        if isinstance(call, _ProjectCall):
            call = call.with_project((yield from self._known_project()))
        return (yield from super().accepted_response(call, on_response))

    def _known_project(self) -> Generator[Tick, None, str]:
        return self._project or (yield from self._lookup.outcome())

    def _fetch_project(self) -> str:
        found = self._fetch_object(self._method_call("loadCodeAssist", {"metadata": METADATA}))
        project = found.get("cloudaicompanionProject")
        if not isinstance(project, str) or not project:
            raise UpstreamMisconfigured(
                "Code Assist has no project for this login: run Gemini CLI once to create it, or set "
                f"GOOGLE_CLOUD_PROJECT. {ADMINISTRATOR}"
            )
        self._project = project
        return project


def _session_id(conversation: str) -> str:
    """One id for each conversation, as in Gemini CLI: a shared id makes caching worse."""
    return str(uuid5(SESSIONS, conversation) if conversation else uuid4())


def _chunk_in(payload: dict[str, Any]) -> dict[str, Any]:
    """The chunk in a payload; some payloads have no chunk and only report the remaining credits."""
    chunk = payload.get("response")
    if not isinstance(chunk, dict):
        return {}
    return {"responseId": payload["traceId"], **chunk} if "traceId" in payload else chunk


def _countable(request: GenerateRequest) -> list[Content]:
    """Code Assist counts only contents without thoughts, so instruction and tools become contents."""
    instruction = [Content(USER, request.system.parts)] if request.system else []
    declared = request_to_json(request).get("tools")
    tools = [Content(USER, (Part(json_bytes({"tools": declared}).decode()),))] if declared else []
    said = [replace(content, parts=tuple(map(_plain, content.parts))) for content in request.contents]
    return [*instruction, *tools, *said]


def _plain(part: Part) -> Part:
    return replace(part, thought=False, signature=None)
