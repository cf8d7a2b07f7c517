"""Content blocks of a Messages request to Gemini parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge.gemini.media import inline_from_base64, media_from_url
from bridge.gemini.media_types import JPEG, PDF
from bridge.gemini.types import FileData, InlineData, JsonObject, Part
from bridge.protocols.content_parts import tool_result
from bridge.protocols.json_reading import each_object, invalid_field, lookup_by, optional, quoted, required

Parts = list[Part]


def content_parts(content: Any, path: str) -> Parts:
    """The parts of a user's content: a string or blocks, without tool results."""
    if isinstance(content, str):
        return [Part(content)]
    return [part for where, block in blocks(content, path) for part in block_parts(block, where)]


def blocks(content: Any, path: str) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(content, list):
        raise invalid_field("must be a string or an array of content blocks", path)
    return list(each_object(content, path))


def block_parts(block: JsonObject, path: str) -> Parts:
    return lookup_by(block, "type", _READERS, path)(block, path)


def _text(block: JsonObject, path: str) -> Parts:
    return [Part(required(block, "text", str, path))]


def _image(block: JsonObject, path: str) -> Parts:
    return [Part(_media(required(block, "source", dict, path), f"{path}.source"))]


def _document(block: JsonObject, path: str) -> Parts:
    source, where = required(block, "source", dict, path), f"{path}.source"
    title, context = optional(block, "title", str, path), optional(block, "context", str, path)
    head = [Part(f"Document: {title}")] if title else []
    head += [Part(context)] if context else []
    match source.get("type"):
        case "text":
            return [*head, Part(required(source, "data", str, where))]
        case "content":
            return [*head, *content_parts(source.get("content"), f"{where}.content")]
    return [*head, Part(_media(source, where, PDF))]


def _media(source: JsonObject, path: str, usual: str = JPEG) -> InlineData | FileData:
    kind = required(source, "type", str, path)
    if kind == "base64":
        mime_type = required(source, "media_type", str, path)
        return inline_from_base64(mime_type, required(source, "data", str, path), f"{path}.data")
    if kind == "url":
        return media_from_url(required(source, "url", str, path), f"{path}.url", usual)
    raise invalid_field(f"must be base64 or url, not {quoted(kind)}", f"{path}.type")


def _search_result(block: JsonObject, path: str) -> Parts:
    source = optional(block, "source", str, path) or ""
    title = optional(block, "title", str, path) or source
    return [
        Part(f"Source: {title} {source}".strip()),
        *content_parts(block.get("content"), f"{path}.content"),
    ]


def _tool_reference(block: JsonObject, path: str) -> Parts:
    return [Part(f"The tool {required(block, 'tool_name', str, path)} is available now.")]


_READERS: dict[str, Callable[[JsonObject, str], Parts]] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "search_result": _search_result,
    "tool_reference": _tool_reference,
}


def tool_result_part(block: JsonObject, name: str, path: str) -> Part:
    call_id = required(block, "tool_use_id", str, path)
    content = block.get("content")
    parts = [] if content is None else content_parts(content, f"{path}.content")
    return tool_result(parts, name, call_id, optional(block, "is_error", bool, path))
