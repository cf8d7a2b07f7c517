"""The result of a tool of a server, as a Gemini function response has it. No IO.

Texts become the output, one after the other. Images, audio and files whose type Gemini accepts become media.
Structured content is given as it is. What cannot be carried is counted and named to the model.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from bridge.gemini.media_types import accepted_type
from bridge.gemini.types import InlineData, JsonObject

LOSSES: Mapping[str, str] = {
    "mcp.media_type": "Gemini does not accept this type of image, audio or file.",
    "mcp.content": "A tool returned content of a kind that MCP does not define.",
}
INPUT_REQUIRED = "The tool asks a person for input. Nobody can be asked here, so it did nothing."


@dataclass(slots=True)
class McpResult:
    texts: list[str] = field(default_factory=list)
    media: list[InlineData] = field(default_factory=list)
    structured: Any = None
    is_error: bool = False
    losses: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    @property
    def response(self) -> JsonObject:
        """The object for Gemini. Servers repeat structured content as text; it is sent once."""
        name = "error" if self.is_error else "output"
        if self.structured is None or self.structured == {"result": self.text}:
            return {name: self.text}
        if not self.texts or _same(self.text, self.structured):
            return {name: self.structured}
        return {name: self.text, "structuredContent": self.structured}


def _same(text: str, structured: Any) -> bool:
    try:
        repeated: bool = orjson.loads(text) == structured
    except orjson.JSONDecodeError:
        return False
    return repeated


def read_result(result: JsonObject) -> McpResult:
    if result.get("resultType") == "input_required":
        return McpResult([INPUT_REQUIRED], is_error=True)
    read = McpResult(structured=result.get("structuredContent"), is_error=result.get("isError") is True)
    content = result.get("content")
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        reader = _READERS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            read.losses.append("mcp.content")
        else:
            reader(block, read)
    return read


def _text(block: JsonObject, read: McpResult) -> None:
    read.texts.append(str(block.get("text", "")))


def _media(block: JsonObject, read: McpResult) -> None:
    _add_media(block.get("data"), block.get("mimeType"), str(block["type"]), read)


def _add_media(data: Any, declared: Any, what: str, read: McpResult) -> None:
    try:
        content = base64.b64decode(data if isinstance(data, str) else "", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    mime_type = accepted_type(declared if isinstance(declared, str) else "", content)
    if not content or mime_type is None:
        read.losses.append("mcp.media_type")
        read.texts.append(f"[{what} of the type {declared!s:.100} left out: {len(content)} bytes]")
    else:
        read.media.append(InlineData(mime_type, data))


def _resource(block: JsonObject, read: McpResult) -> None:
    """A text stays with its address in one line of JSON, so that nothing of it is lost."""
    resource = block.get("resource")
    if not isinstance(resource, dict):
        read.losses.append("mcp.content")
    elif "blob" in resource:
        about = {name: value for name, value in resource.items() if name not in ("blob", "_meta")}
        read.texts.append(_json({"type": "resource", "resource": about}))
        _add_media(resource["blob"], resource.get("mimeType"), "resource", read)
    else:
        read.texts.append(_json({"type": "resource", "resource": resource}))


def _link(block: JsonObject, read: McpResult) -> None:
    read.texts.append(_json(block))


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return "[content that is nested too deeply]"


_READERS: Mapping[str, Callable[[JsonObject, McpResult], None]] = {
    "text": _text,
    "image": _media,
    "audio": _media,
    "resource": _resource,
    "resource_link": _link,
}
