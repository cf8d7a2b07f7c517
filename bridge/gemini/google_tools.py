"""Google Search beside functions, and the parts that it leaves in the history.

Some models search and call functions in one answer, if the request asks for the parts of the server-side
calls. Such an answer contains signed parts `toolCall` and `toolResponse`, and the next request must return
them. Clients that can carry them return them; for all others the signature store keeps them by the id of the
call that follows them. An agent can work without Google's tools, but not without its functions, so Google's
tools are dropped if a model accepts only one kind.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

import orjson

from bridge.gemini.hosted_tools import is_hosted
from bridge.gemini.losses import SEARCH_BESIDE_FUNCTIONS
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.signatures import CallSignatures
from bridge.gemini.strict_calls import AUTO, VALIDATED, calling_config, with_mode, without_validation
from bridge.gemini.types import MODEL, Content, FunctionCall, GenerateRequest, OtherData, Part, PartData
from bridge.gemini.wire import part_from_json, part_to_json

_CALL, _RESPONSE = "toolCall", "toolResponse"
_FLAG = "includeServerSideToolInvocations"
_SEARCH = "googleSearch"
#: The combination has no mode AUTO; VALIDATED takes its place. ANY and NONE leave no choice to search.
_MODES_WITH_SEARCH = (AUTO, VALIDATED)
#: A longer text is not stored; a search result has some kilobytes.
_MOST_STORED = 64 * 1024


def is_server_tool(data: PartData) -> bool:
    """Whether the data is a call that Google's servers ran, or its response."""
    return (
        isinstance(data, OtherData)
        and data.field in (_CALL, _RESPONSE)
        and isinstance(data.value, dict)
        and not is_hosted(data)
    )


# --- the request -------------------------------------------------------------------------------------


def may_search_beside_functions(request: GenerateRequest, capabilities: ModelCapabilities) -> bool:
    return (
        capabilities.search_beside_functions
        and _has_both_kinds(request)
        and any(_SEARCH in tool.extra for tool in request.tools)
        and calling_config(request).get("mode", AUTO) in _MODES_WITH_SEARCH
    )


def with_search_beside_functions(request: GenerateRequest) -> tuple[GenerateRequest, tuple[str, ...]]:
    """The request with search and functions. Google documents no other tool of its own beside functions that
    the bridge can carry, so these are dropped."""
    request = with_mode(request, VALIDATED)
    kept = tuple(tool for tool in request.tools if tool.functions or _SEARCH in tool.extra)
    notes = () if len(kept) == len(request.tools) else (SEARCH_BESIDE_FUNCTIONS,)
    return replace(request, tools=kept, tool_config={**request.tool_config, _FLAG: True}), notes


def is_combined(request: GenerateRequest) -> bool:
    """Whether the bridge asked for search beside functions."""
    return _FLAG in request.tool_config and _has_both_kinds(request)


def without_google_tools(request: GenerateRequest) -> GenerateRequest:
    """The request without Google's tools and their parts, if it also declares functions."""
    if not _has_both_kinds(request):
        return request
    if is_combined(request):
        request = without_validation(request)
    config = {name: value for name, value in request.tool_config.items() if name != _FLAG}
    return replace(
        request,
        tools=tuple(tool for tool in request.tools if tool.functions),
        tool_config=config,
        contents=tuple(content for content in without_server_tools(request.contents) if content.parts),
    )


def _has_both_kinds(request: GenerateRequest) -> bool:
    """A client of Gemini's own API chose the combination itself."""
    return not request.native and len({bool(tool.functions) for tool in request.tools}) > 1


# --- the parts in the history ------------------------------------------------------------------------


def without_server_tools(contents: Iterable[Content]) -> list[Content]:
    return [_only(content, ()) for content in contents]


def with_complete_server_tools(contents: Iterable[Content]) -> list[Content]:
    """The contents without server-side calls that Gemini may refuse: without a signature of this family,
    without a response, or without the call."""
    contents = list(contents)
    parts = [part for content in contents for part in content.parts if is_server_tool(part.data)]
    called = {_own_id(part) for part in parts if _field(part) == _CALL and part.signature}
    complete = called & {_own_id(part) for part in parts if _field(part) == _RESPONSE}
    return [_only(content, complete) for content in contents] if parts else contents


def _only(content: Content, ids: Container[str]) -> Content:
    """The content with the server-side calls of these ids only."""
    parts = tuple(part for part in content.parts if not is_server_tool(part.data) or _own_id(part) in ids)
    return content if len(parts) == len(content.parts) else replace(content, parts=parts)


def _field(part: Part) -> str:
    return part.data.field if isinstance(part.data, OtherData) else ""


def _own_id(part: Part) -> str:
    return str(part.data.value.get("id")) if isinstance(part.data, OtherData) else ""


# --- the store ---------------------------------------------------------------------------------------


def _family(family: str) -> str:
    """The store's key. It contains a space, so that it is never the name of a family."""
    return f"server tools {family}"


class ServerToolKeeper:
    """Stores the server-side calls of one answer by the id of the function call that follows them."""

    def __init__(self, family: str, store: CallSignatures) -> None:
        self._family = _family(family)
        self._store = store
        self._waiting: dict[int, list[Part]] = {}

    def feed(self, candidate: int, parts: Iterable[tuple[Part, Part]]) -> None:
        """Each part as Gemini sent it, and as the client gets it."""
        for original, adapted in parts:
            if is_server_tool(original.data):
                self._waiting.setdefault(candidate, []).append(original)
            elif isinstance(adapted.data, FunctionCall) and adapted.data.id:
                self._keep(adapted.data.id, self._waiting.pop(candidate, []))

    def _keep(self, call_id: str, parts: Sequence[Part]) -> None:
        text = orjson.dumps(list(map(part_to_json, parts))).decode() if parts else ""
        if 0 < len(text) <= _MOST_STORED:
            self._store.keep(self._family, {call_id: text})


def restore_server_tools(
    contents: Sequence[Content], family: str, store: CallSignatures
) -> tuple[Content, ...]:
    """Add the stored server-side calls to the turns that came back without any."""
    bare = [content for content in contents if content.role == MODEL and not _has_server_tools(content)]
    call_ids = [call.id for content in bare for call in content.calls() if call.id]
    kept = store.find(_family(family), call_ids) if call_ids else {}
    if not kept:
        return tuple(contents)
    return tuple(content if _has_server_tools(content) else _restored(content, kept) for content in contents)


def _has_server_tools(content: Content) -> bool:
    return any(is_server_tool(part.data) for part in content.parts)


def _restored(content: Content, kept: Mapping[str, str]) -> Content:
    parts: list[Part] = []
    for part in content.parts:
        call_id = part.data.id if isinstance(part.data, FunctionCall) else None
        if stored := kept.get(call_id or ""):
            parts += map(part_from_json, orjson.loads(stored))
        parts.append(part)
    return content if len(parts) == len(content.parts) else replace(content, parts=tuple(parts))
