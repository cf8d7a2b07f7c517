"""The last step before Gemini and the first after it, the same for every protocol.

Converters write requests with the client's own tool names, call ids and sealed signatures. `adapt_request`
makes of that what this model accepts, and returns the AnswerAdapter that undoes the changes in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from bridge.gemini.generation import adapt_generation
from bridge.gemini.history import repair
from bridge.gemini.json_beside_tools import with_json_in_words
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.signatures import (
    Vault,
    dummy_notes,
    remember_maker,
    seal,
    signed,
    unsealed,
    without_foreign,
)
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
    Part,
    TextChunk,
    Tool,
)

#: Ids we made up for calls that came without one begin so; they are ours, and Gemini never sees them.
MINTED_ID = "call_gb"

NewId = Callable[[str], str]


class AnswerAdapter:
    """What one answer needs to become the client's: its tool names, call ids and sealed signatures.

    `native` clients do without ids, and take signatures as they are.
    """

    def __init__(
        self, capabilities: ModelCapabilities, vault: Vault, new_id: NewId, *, native: bool = False
    ) -> None:
        self.names = ToolNames()
        self._native = native
        self.notes: tuple[str, ...] = ()
        self.output_floor = 0 if native else capabilities.output_floor
        self._family = capabilities.family
        self._vault = vault
        self._new_id = new_id
        self._call_ids: set[str] = set()

    def reserve(self, call_ids: Iterable[str | None]) -> None:
        """Ids of earlier turns: clients lose a turn whose call repeats one."""
        self._call_ids.update(filter(None, call_ids))

    def feed(self, chunk: Chunk) -> Chunk:
        if isinstance(chunk, TextChunk) or not _needs_refitting(chunk):
            return chunk
        refitted = replace(chunk, candidates=tuple(map(self._candidate, chunk.candidates)))
        self._keep_signatures(refitted, chunk)
        return refitted

    def _candidate(self, candidate: Candidate) -> Candidate:
        if candidate.content is None:
            return candidate
        return replace(
            candidate,
            content=replace(candidate.content, parts=tuple(map(self._part, candidate.content.parts))),
        )

    def _part(self, part: Part) -> Part:
        if part.signature is not None and not self._native:
            part = replace(part, signature=seal(part.signature, self._family))
        if isinstance(part.data, FunctionCall):
            part = replace(part, data=self._call(part.data))
        return part

    def _call(self, call: FunctionCall) -> FunctionCall:
        name = self.names.from_gemini(call.name)
        if self._native:
            return replace(call, name=name)
        call_id = call.id
        if not call_id or call_id in self._call_ids:
            call_id = self._new_id(MINTED_ID)
        self._call_ids.add(call_id)
        return replace(call, id=call_id, name=name)

    def _keep_signatures(self, refitted: Chunk, original: Chunk) -> None:
        signatures = {
            after.data.id: before.signature
            for fitted, came in zip(refitted.candidates, original.candidates, strict=True)
            for after, before in zip(fitted.parts, came.parts, strict=True)
            if isinstance(after.data, FunctionCall) and after.data.id and before.signature
        }
        if signatures:
            self._vault.keep(self._family, signatures)
        if self._native:
            said = (part.signature for candidate in original.candidates for part in candidate.parts)
            remember_maker(self._family, filter(None, said), self._vault)


def _needs_refitting(chunk: Chunk) -> bool:
    for candidate in chunk.candidates:
        for part in candidate.parts:
            if part.signature is not None or isinstance(part.data, FunctionCall):
                return True
    return False


def adapt_request(
    request: GenerateRequest, model: str, capabilities: ModelCapabilities, vault: Vault, new_id: NewId
) -> tuple[GenerateRequest, AnswerAdapter]:
    # First unsealed, then repaired: a part that held nothing but a foreign signature is empty then.
    history = repair(_with_own_signatures(request, capabilities.family, vault), prefill=capabilities.prefill)
    contents = signed(
        history.contents, capabilities.family, required=capabilities.needs_signatures, vault=vault
    )
    request, refused = _without_clashing_search(_with_past_tools(replace(request, contents=contents)))
    passes = (
        capabilities.json_beside_tools or request.native
    )  # who speaks Gemini's own language knows its rules
    request, reworded = (request, ()) if passes else with_json_in_words(request)
    adapter = AnswerAdapter(capabilities, vault, new_id, native=request.native)
    generation, changed = adapt_generation(request, capabilities)
    dummies = dummy_notes(history.contents, contents)
    adapter.notes = (*history.notes, *dummies, *refused, *reworded, *changed)
    adapter.reserve(call.id for content in contents for call in content.calls())
    fitted = replace(
        request,
        model=model,
        contents=tuple(_fit_content(content, capabilities, adapter.names) for content in request.contents),
        tools=tuple(_fit_tool(tool, adapter.names) for tool in request.tools),
        tool_config=_fit_tool_config(request.tool_config, adapter.names),
        generation=generation,
        thinking=None,
    )
    return fitted, adapter


def _with_own_signatures(request: GenerateRequest, family: str, vault: Vault) -> list[Content]:
    if request.native:
        return without_foreign(request.contents, family, vault)
    return unsealed(request.contents, family)


def _with_past_tools(request: GenerateRequest) -> GenerateRequest:
    """Past calls without any declared tool make Gemini call them again, and fail: declare, but forbid."""
    if any(tool.functions for tool in request.tools) or (request.native and request.tools):
        return request
    past = dict.fromkeys(call.name for content in request.contents for call in content.calls())
    if not past:
        return request
    declared = tuple(FunctionDeclaration(name, "Used earlier in this conversation.") for name in past)
    forbidden = {"functionCallingConfig": {"mode": "NONE"}}
    return replace(request, tools=(*request.tools, Tool(declared)), tool_config=forbidden)


def _without_clashing_search(request: GenerateRequest) -> tuple[GenerateRequest, tuple[str, ...]]:
    """Gemini refuses its own search beside functions; an agent can do without search, not without them."""
    clash = any(tool.functions for tool in request.tools) and not all(
        tool.functions for tool in request.tools
    )
    if not clash or request.native:
        return request, ()
    kept = tuple(tool for tool in request.tools if tool.functions)
    return replace(request, tools=kept), ("tools.search_beside_functions",)


def _fit_content(content: Content, capabilities: ModelCapabilities, names: ToolNames) -> Content:
    parts = tuple([_fit_part(part, names) for part in content.parts])
    if not capabilities.tool_media:
        parts = _with_media_beside(parts)
    return Content(content.role, parts, content.extra)


def _fit_part(part: Part, names: ToolNames) -> Part:
    data = part.data
    if not isinstance(data, FunctionCall | FunctionResponse):
        return part
    # Gemini never saw the ids we minted; order alone pairs those calls with their responses.
    own_id = data.id if data.id and not data.id.startswith(MINTED_ID) else None
    name = names.to_gemini(data.name)
    if name == data.name and own_id == data.id:
        return part
    return replace(part, data=replace(data, name=name, id=own_id))


def _with_media_beside(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Older models refuse media inside a response: it follows the responses, before what the user said."""
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


def _fit_tool(tool: Tool, names: ToolNames) -> Tool:
    return Tool(tuple(_fit_function(each, names) for each in tool.functions), tool.extra)


def _fit_function(function: FunctionDeclaration, names: ToolNames) -> FunctionDeclaration:
    name = names.to_gemini(function.name)
    return function if name == function.name else replace(function, name=name)


def _fit_tool_config(config: JsonObject, names: ToolNames) -> JsonObject:
    calling: Mapping[str, Any] = config.get("functionCallingConfig") or {}
    allowed = calling.get("allowedFunctionNames")
    if not allowed:
        return config
    legal = [names.to_gemini(name) for name in allowed]
    return {**config, "functionCallingConfig": {**calling, "allowedFunctionNames": legal}}
