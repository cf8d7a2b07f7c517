"""Adapts a request to a model and its answer to the client. All protocols share this code.

Converters write requests with the client's own tool names, call ids and sealed signatures. `adapt_request`
changes such a request to one that this model accepts, and returns the AnswerAdapter that reverses the changes
in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from bridge.gemini.generation import adapt_generation
from bridge.gemini.google_tools import (
    ServerToolKeeper,
    may_search_beside_functions,
    restore_server_tools,
    with_complete_server_tools,
    with_search_beside_functions,
    without_google_tools,
    without_server_tools,
)
from bridge.gemini.history import repair_history
from bridge.gemini.hosted_tools import with_function_calls
from bridge.gemini.json_beside_tools import ask_for_json_in_instruction
from bridge.gemini.losses import SEARCH_BESIDE_FUNCTIONS
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.signatures import (
    CallSignatures,
    add_signatures,
    drop_foreign_signatures,
    dummy_notes,
    remember_family,
    seal,
    unseal_contents,
)
from bridge.gemini.strict_calls import with_strict_calls
from bridge.gemini.tool_names import ToolNames
from bridge.gemini.types import (
    Candidate,
    Chunk,
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    JsonObject,
    OtherData,
    Part,
    TextChunk,
    Tool,
)

#: Prefix of the ids that the bridge generates for calls without an id. Gemini never sees these ids.
GENERATED_ID_PREFIX = "call_gb"

NewId = Callable[[str], str]


class AnswerAdapter:
    """Restores the client's tool names in one answer, adds call ids and seals signatures.

    `native` clients need no call ids, and get signatures unchanged.
    """

    def __init__(
        self,
        capabilities: ModelCapabilities,
        signature_store: CallSignatures,
        new_id: NewId,
        *,
        native: bool = False,
    ) -> None:
        self.names = ToolNames()
        self._native = native
        self.notes: tuple[str, ...] = ()
        self.output_floor = 0 if native else capabilities.output_floor
        self._family = capabilities.family
        self._signature_store = signature_store
        self._new_id = new_id
        self._call_ids: set[str] = set()
        self._server_tools = ServerToolKeeper(capabilities.family, signature_store)

    def reserve(self, call_ids: Iterable[str | None]) -> None:
        """Exclude the ids of earlier turns: clients lose a turn whose call reuses one."""
        self._call_ids.update(filter(None, call_ids))

    def feed(self, chunk: Chunk) -> Chunk:
        if isinstance(chunk, TextChunk) or not _needs_adapting(chunk):
            return chunk
        adapted = replace(chunk, candidates=tuple(map(self._adapt_candidate, chunk.candidates)))
        self._keep_signatures(adapted, chunk)
        return adapted

    def _adapt_candidate(self, candidate: Candidate) -> Candidate:
        if candidate.content is None:
            return candidate
        return replace(
            candidate,
            content=replace(
                candidate.content, parts=tuple(map(self._adapt_answer_part, candidate.content.parts))
            ),
        )

    def _adapt_answer_part(self, part: Part) -> Part:
        if part.signature is not None and not self._native:
            part = replace(part, signature=seal(part.signature, self._family))
        if isinstance(part.data, FunctionCall):
            part = replace(part, data=self._adapt_call(part.data))
        return part

    def _adapt_call(self, call: FunctionCall) -> FunctionCall:
        name = self.names.from_gemini(call.name)
        if self._native:
            return replace(call, name=name)
        call_id = call.id
        if not call_id or call_id in self._call_ids:
            call_id = self._new_id(GENERATED_ID_PREFIX)
        self._call_ids.add(call_id)
        return replace(call, id=call_id, name=name)

    def _keep_signatures(self, adapted: Chunk, original: Chunk) -> None:
        signatures = {
            after.data.id: before.signature
            for adapted, came in zip(adapted.candidates, original.candidates, strict=True)
            for after, before in zip(adapted.parts, came.parts, strict=True)
            if isinstance(after.data, FunctionCall) and after.data.id and before.signature
        }
        if signatures:
            self._signature_store.keep(self._family, signatures)
        if not self._native:
            for after, before in zip(adapted.candidates, original.candidates, strict=True):
                self._server_tools.feed(after.number, zip(before.parts, after.parts, strict=True))
        else:
            said = (part.signature for candidate in original.candidates for part in candidate.parts)
            remember_family(self._family, filter(None, said), self._signature_store)


def _needs_adapting(chunk: Chunk) -> bool:
    for candidate in chunk.candidates:
        for part in candidate.parts:
            if part.signature is not None or isinstance(part.data, FunctionCall | OtherData):
                return True
    return False


def adapt_request(
    request: GenerateRequest,
    model: str,
    capabilities: ModelCapabilities,
    signature_store: CallSignatures,
    new_id: NewId,
) -> tuple[GenerateRequest, AnswerAdapter]:
    searches = may_search_beside_functions(request, capabilities)
    contents, history_notes = _adapt_history(request, capabilities, signature_store, searches=searches)
    request = _declare_past_tools(replace(request, contents=contents))
    request = request if request.native else with_strict_calls(request)
    request, search_notes = (with_search_beside_functions if searches else _drop_google_tools)(request)
    json_allowed = capabilities.json_beside_tools or request.native  # native clients know the rule
    request, json_notes = (request, ()) if json_allowed else ask_for_json_in_instruction(request)
    adapter = AnswerAdapter(capabilities, signature_store, new_id, native=request.native)
    generation, generation_notes = adapt_generation(request, capabilities)
    adapter.notes = (*history_notes, *search_notes, *json_notes, *generation_notes)
    adapter.reserve(call.id for content in contents for call in content.calls())
    adapted = replace(
        request,
        model=model,
        contents=tuple(_adapt_content(content, capabilities, adapter.names) for content in request.contents),
        tools=tuple(_adapt_tool(tool, adapter.names) for tool in request.tools),
        tool_config=_adapt_tool_config(request.tool_config, adapter.names),
        generation=generation,
        thinking=None,
    )
    return adapted, adapter


def _adapt_history(
    request: GenerateRequest, capabilities: ModelCapabilities, store: CallSignatures, *, searches: bool
) -> tuple[tuple[Content, ...], tuple[str, ...]]:
    """The contents in the form that Gemini accepts, with notes. `searches`: Gemini may search beside
    functions, so the parts of earlier searches return to it."""
    family = capabilities.family
    request = replace(request, contents=tuple(with_function_calls(request.contents)))
    # Unseal first: the repair then removes parts that held nothing but a foreign signature.
    contents = _restore_signatures(request, family, store)
    if not request.native:
        contents = (with_complete_server_tools if searches else without_server_tools)(contents)
    history = repair_history(contents, prefill=capabilities.prefill)
    signed = add_signatures(history.contents, family, required=capabilities.needs_signatures, store=store)
    notes = (*history.notes, *dummy_notes(history.contents, signed))
    return restore_server_tools(signed, family, store) if searches else signed, notes


def _restore_signatures(
    request: GenerateRequest, family: str, signature_store: CallSignatures
) -> list[Content]:
    if request.native:
        return drop_foreign_signatures(request.contents, family, signature_store)
    return unseal_contents(request.contents, family)


def _declare_past_tools(request: GenerateRequest) -> GenerateRequest:
    """If a request declares no tools, Gemini repeats past calls and fails. So declare them, but forbid
    calls."""
    if any(tool.functions for tool in request.tools) or (request.native and request.tools):
        return request
    past = dict.fromkeys(call.name for content in request.contents for call in content.calls())
    if not past:
        return request
    declared = tuple(FunctionDeclaration(name, "Used earlier in this conversation.") for name in past)
    forbidden = {"functionCallingConfig": {"mode": "NONE"}}
    return replace(request, tools=(*request.tools, Tool(declared)), tool_config=forbidden)


def _drop_google_tools(request: GenerateRequest) -> tuple[GenerateRequest, tuple[str, ...]]:
    kept = without_google_tools(request)
    return kept, () if kept is request else (SEARCH_BESIDE_FUNCTIONS,)


def _adapt_content(content: Content, capabilities: ModelCapabilities, names: ToolNames) -> Content:
    parts = tuple([_adapt_part(part, names) for part in content.parts])
    if not capabilities.tool_media:
        parts = _move_media_out(parts)
    return Content(content.role, parts, content.extra)


def _adapt_part(part: Part, names: ToolNames) -> Part:
    data = part.data
    if not isinstance(data, FunctionCall | FunctionResponse):
        return part
    # Gemini never saw generated ids: it pairs those calls with their responses by order.
    own_id = data.id if data.id and not data.id.startswith(GENERATED_ID_PREFIX) else None
    name = names.to_gemini(data.name)
    if name == data.name and own_id == data.id:
        return part
    return replace(part, data=replace(data, name=name, id=own_id))


def _move_media_out(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Older models reject media inside a response: move it behind the responses, before the user's own
    parts."""
    media = [
        Part(item) for part in parts if isinstance(part.data, FunctionResponse) for item in part.data.media
    ]
    if not media:
        return parts
    responses = [
        replace(part, data=replace(part.data, media=()))
        for part in parts
        if isinstance(part.data, FunctionResponse)
    ]
    others = [part for part in parts if not isinstance(part.data, FunctionResponse)]
    return (*responses, *media, *others)


def _adapt_tool(tool: Tool, names: ToolNames) -> Tool:
    return Tool(tuple(_adapt_function(each, names) for each in tool.functions), tool.extra)


def _adapt_function(function: FunctionDeclaration, names: ToolNames) -> FunctionDeclaration:
    name = names.to_gemini(function.name)
    return function if name == function.name else replace(function, name=name)


def _adapt_tool_config(config: JsonObject, names: ToolNames) -> JsonObject:
    calling: Mapping[str, Any] = config.get("functionCallingConfig") or {}
    allowed = calling.get("allowedFunctionNames")
    if not allowed:
        return config
    legal = [names.to_gemini(name) for name in allowed]
    return {**config, "functionCallingConfig": {**calling, "allowedFunctionNames": legal}}
