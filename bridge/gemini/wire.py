"""JSON to Gemini values and back, without loss.

A field is taken out of the JSON only if it has its usual form. Everything else (an unknown field,
`"thought": false`, an empty `parts`) stays in `extra` and is written back unchanged. Objects that have only
usual fields, as nearly all objects of a stream do, take a fast path: it compares the number of usual fields
with the number of all fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from bridge.gemini.types import (
    EMPTY,
    Candidate,
    Chunk,
    Content,
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    JsonObject,
    OtherData,
    Part,
    PartData,
    TextChunk,
    Tool,
    Usage,
)

T = TypeVar("T")
Fields = dict[str, Any]

#: The types that `usageMetadata` has if it is valid or missing.
_USAGE_TYPES = (dict, type(EMPTY))

#: Members of Part's oneof that the bridge passes on unread.
CARRIED_FIELDS = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")


# --- JSON → values -----------------------------------------------------------------------------------


def _take(fields: Fields, key: str, kind: type[T]) -> T | None:
    value = fields.get(key)
    if type(value) is not kind:
        return None
    del fields[key]
    return value


def _take_filled(fields: Fields, key: str) -> JsonObject:
    return _take(fields, key, dict) or EMPTY if fields.get(key) else EMPTY


def _take_each(fields: Fields, key: str, read: Callable[[Any], T]) -> tuple[T, ...]:
    items: Any = fields.get(key)
    if _is_one_object(items):
        del fields[key]
        return (read(items[0]),)
    if not isinstance(items, list) or not items or not all(type(item) is dict for item in items):
        return ()
    del fields[key]
    return tuple(map(read, items))


def _rest(fields: Fields) -> JsonObject:
    return fields or EMPTY


def _call_from_json(source: JsonObject) -> FunctionCall | None:
    fields = dict(source)
    name = _take(fields, "name", str)
    if name is None:
        return None
    return FunctionCall(name, _take(fields, "args", dict), _take(fields, "id", str), _rest(fields))


def _response_from_json(source: JsonObject) -> FunctionResponse | None:
    fields = dict(source)
    name, response = _take(fields, "name", str), _take(fields, "response", dict)
    if name is None or response is None:
        return None
    return FunctionResponse(
        name,
        response,
        _take(fields, "id", str),
        _take_media(fields),
        _rest(fields),
    )


def _take_media(fields: Fields) -> tuple[InlineData | FileData, ...]:
    items = fields.get("parts")
    parts = [part_from_json(item) for item in items if type(item) is dict] if isinstance(items, list) else []
    media = tuple(part.data for part in parts if isinstance(part.data, InlineData | FileData))
    if not media or [_media_to_json(item) for item in media] != items:
        return ()
    del fields["parts"]
    return media


def _inline_from_json(source: JsonObject) -> InlineData | None:
    fields = dict(source)
    mime_type, data = _take(fields, "mimeType", str), _take(fields, "data", str)
    return None if mime_type is None or data is None else InlineData(mime_type, data, _rest(fields))


def _file_from_json(source: JsonObject) -> FileData | None:
    fields = dict(source)
    uri = _take(fields, "fileUri", str)
    return None if uri is None else FileData(uri, _take(fields, "mimeType", str), _rest(fields))


_READERS: dict[str, Callable[[JsonObject], PartData]] = {
    "functionCall": _call_from_json,
    "functionResponse": _response_from_json,
    "inlineData": _inline_from_json,
    "fileData": _file_from_json,
}


def _take_data(fields: Fields) -> PartData:
    text = _take(fields, "text", str)
    if text is not None:
        return text
    for key, read in _READERS.items():
        if type(fields.get(key)) is dict and (data := read(fields[key])) is not None:
            del fields[key]
            return data
    for key in CARRIED_FIELDS:
        if key in fields:
            return OtherData(key, fields.pop(key))
    return None


def part_from_json(source: JsonObject) -> Part:
    if len(source) == 1 and type(source.get("text")) is str:
        return Part(source["text"])  # fast path: nearly every part is plain text
    fields = dict(source)
    data = _take_data(fields)
    thought = fields.get("thought") is True and fields.pop("thought")
    return Part(data, thought, _take(fields, "thoughtSignature", str), _rest(fields))


def _is_one_object(items: Any) -> bool:
    return type(items) is list and len(items) == 1 and type(items[0]) is dict


def content_from_json(source: JsonObject) -> Content:
    role: Any = source.get("role")
    parts: Any = source.get("parts")
    if len(source) == 2 and type(role) is str and _is_one_object(parts):
        return Content(role, (part_from_json(parts[0]),))
    fields = dict(source)
    return Content(_take(fields, "role", str), _take_each(fields, "parts", part_from_json), _rest(fields))


def _candidate_from_json(source: JsonObject) -> Candidate:
    said, reason, index = source.get("content"), source.get("finishReason"), source.get("index")
    if type(said) is dict and 1 + (type(reason) is str) + (type(index) is int) == len(source):
        return Candidate(content_from_json(said), reason, index)
    fields = dict(source)
    content = _take(fields, "content", dict)
    return Candidate(
        None if content is None else content_from_json(content),
        _take(fields, "finishReason", str),
        _take(fields, "index", int),
        _rest(fields),
    )


def _single_text(source: JsonObject) -> str | None:
    """The text of a chunk that holds one plain text of the first candidate and no finish reason, else
    None."""
    try:
        (candidate,) = source["candidates"]
        content = candidate["content"]
        (part,) = content["parts"]
        text, role, index = part["text"], content["role"], candidate.get("index", 0)
    except (LookupError, TypeError, ValueError, AttributeError):
        return None  # the chunk has another shape
    if len(part) != 1 or len(content) != 2 or len(candidate) != 1 + ("index" in candidate):
        return None
    usual = type(text) is str and type(role) is str and type(index) is int and index == 0
    return text if usual else None


def chunk_from_json(source: JsonObject) -> Chunk:
    text = _single_text(source)
    if text and type(source.get("usageMetadata", EMPTY)) in _USAGE_TYPES and "promptFeedback" not in source:
        return TextChunk(text, source)
    fields = dict(source)
    usage = _take(fields, "usageMetadata", dict)
    return Chunk(
        _take_each(fields, "candidates", _candidate_from_json),
        None if usage is None else Usage(usage),
        _take(fields, "promptFeedback", dict),
        _rest(fields),
    )


def _declaration_from_json(source: JsonObject) -> FunctionDeclaration:
    fields = dict(source)
    return FunctionDeclaration(
        _take(fields, "name", str) or "" if fields.get("name") else "",
        _take(fields, "description", str),
        _take(fields, "parametersJsonSchema", dict),
        _rest(fields),
    )


def _tool_from_json(source: JsonObject) -> Tool:
    fields = dict(source)
    return Tool(_take_each(fields, "functionDeclarations", _declaration_from_json), _rest(fields))


def request_from_json(model: str, source: JsonObject) -> GenerateRequest:
    fields = dict(source)
    system = _take(fields, "systemInstruction", dict)
    return GenerateRequest(
        model,
        _take_each(fields, "contents", content_from_json),
        None if system is None else content_from_json(system),
        _take_each(fields, "tools", _tool_from_json),
        _take_filled(fields, "toolConfig"),
        _take_filled(fields, "generationConfig"),
        store=_take(fields, "store", bool),
        service_tier=_take(fields, "serviceTier", str),
        extra=_rest(fields),
    )


# --- values → JSON -----------------------------------------------------------------------------------


def _present(extra: JsonObject, **fields: Any) -> Fields:
    """The named fields that have a value, then the extra fields."""
    found = {key: value for key, value in fields.items() if value is not None}
    if extra is not EMPTY:
        found.update(extra)
    return found


def _each(items: Iterable[T], dump: Callable[[T], Fields]) -> list[Fields] | None:
    return [dump(item) for item in items] or None


def _media_to_json(media: InlineData | FileData) -> Fields:
    if isinstance(media, InlineData):
        return {"inlineData": _present(media.extra, mimeType=media.mime_type, data=media.data)}
    return {"fileData": _present(media.extra, mimeType=media.mime_type, fileUri=media.uri)}


def _data_to_json(data: PartData) -> Fields:
    match data:
        case None:
            return {}
        case str():
            return {"text": data}
        case FunctionCall():
            return {"functionCall": _named(data.id, data.name, "args", data.args, data.extra)}
        case FunctionResponse():
            return {"functionResponse": _response_to_json(data)}
        case InlineData() | FileData():
            return _media_to_json(data)
        case OtherData():
            return {data.field: data.value}


def _named(own_id: str | None, name: str, key: str, value: JsonObject | None, extra: JsonObject) -> Fields:
    fields: Fields = {"name": name} if own_id is None else {"id": own_id, "name": name}
    if value is not None:
        fields[key] = value
    return fields if extra is EMPTY else {**fields, **extra}


def _response_to_json(data: FunctionResponse) -> Fields:
    fields = _named(data.id, data.name, "response", dict(data.response), data.extra)
    return fields if not data.media else {**fields, "parts": list(map(_media_to_json, data.media))}


def part_to_json(part: Part) -> Fields:
    fields = _data_to_json(part.data)
    if part.thought:
        fields["thought"] = True
    if part.signature is not None:
        fields["thoughtSignature"] = part.signature
    if part.extra is not EMPTY:
        fields.update(part.extra)
    return fields


def content_to_json(content: Content) -> Fields:
    fields: Fields = {} if content.role is None else {"role": content.role}
    if content.parts:
        fields["parts"] = list(map(part_to_json, content.parts))
    return fields if content.extra is EMPTY else {**fields, **content.extra}


def _candidate_to_json(candidate: Candidate) -> Fields:
    content = candidate.content
    return _present(
        candidate.extra,
        content=None if content is None else content_to_json(content),
        finishReason=candidate.finish_reason,
        index=candidate.index,
    )


def chunk_to_json(chunk: Chunk) -> Fields:
    if isinstance(chunk, TextChunk):
        return dict(chunk.source)
    return _present(
        chunk.extra,
        candidates=_each(chunk.candidates, _candidate_to_json),
        usageMetadata=None if chunk.usage is None else dict(chunk.usage.raw),
        promptFeedback=chunk.prompt_feedback,
    )


def _declaration_to_json(function: FunctionDeclaration) -> Fields:
    return _present(
        function.extra,
        name=function.name or None,
        description=function.description,
        parametersJsonSchema=function.schema,
    )


def _tool_to_json(tool: Tool) -> Fields:
    return _present(tool.extra, functionDeclarations=_each(tool.functions, _declaration_to_json))


def request_to_json(request: GenerateRequest) -> Fields:
    """The body of a generateContent call; the model is part of the URL."""
    return _present(
        request.extra,
        systemInstruction=None if request.system is None else content_to_json(request.system),
        contents=_each(request.contents, content_to_json),
        tools=_each(request.tools, _tool_to_json),
        toolConfig=dict(request.tool_config) or None,
        generationConfig=dict(request.generation) or None,
        store=request.store,
        serviceTier=request.service_tier,
    )
