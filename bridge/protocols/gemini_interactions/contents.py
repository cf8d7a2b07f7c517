"""Converts texts and media of the Interactions API to Gemini's parts and back."""

from __future__ import annotations

from typing import Any

from bridge.gemini.media import inline_from_base64, media_from_url
from bridge.gemini.types import EMPTY, FileData, InlineData, JsonObject, Part
from bridge.protocols.content_parts import Reader, text_part
from bridge.protocols.json_reading import invalid_field, optional, quoted, required

_RESOLUTIONS = ("low", "medium", "high", "ultra_high")
_CLIP = {"start_offset": "startOffset", "end_offset": "endOffset", "fps": "fps"}
DOCUMENT = "document"


def _media(content: JsonObject, path: str) -> Part:
    return Part(
        _data(content, path, optional(content, "mime_type", str, path)), extra=_resolution(content, path)
    )


def _data(content: JsonObject, path: str, mime_type: str | None) -> InlineData | FileData:
    uri = optional(content, "uri", str, path)
    if uri is None:
        data = required(content, "data", str, path)
        return inline_from_base64(
            mime_type or required(content, "mime_type", str, path), data, f"{path}.data"
        )
    if uri[:5].lower() == "data:":
        return media_from_url(uri, f"{path}.uri")
    return FileData(uri, mime_type)  # Gemini fetches it, as in its own protocol


def _resolution(content: JsonObject, path: str) -> JsonObject:
    resolution = optional(content, "resolution", str, path)
    if resolution is None:
        return EMPTY
    if resolution not in _RESOLUTIONS:
        problem = f"must be one of {', '.join(_RESOLUTIONS)}, not {quoted(resolution)}"
        raise invalid_field(problem, f"{path}.resolution")
    return {"mediaResolution": {"level": f"MEDIA_RESOLUTION_{resolution.upper()}"}}


def _audio(content: JsonObject, path: str) -> Part:
    """An audio part. The MIME type of raw audio includes sample rate and channels."""
    mime_type = optional(content, "mime_type", str, path)
    for field, name in (("sample_rate", "rate"), ("channels", "channels")):
        if (number := optional(content, field, int, path)) is not None and mime_type:
            mime_type = f"{mime_type};{name}={number}"
    return Part(_data(content, path, mime_type))


def _video(content: JsonObject, path: str) -> Part:
    part = _media(content, path)
    processing, where = content.get("processing"), f"{path}.processing"
    if processing is None or processing == "static":
        return part
    if not isinstance(processing, dict) or processing.get("type", "static") != "static":
        raise invalid_field("must be static: the bridge supports no other processing", where)
    clip = {ours: processing[theirs] for theirs, ours in _CLIP.items() if processing.get(theirs) is not None}
    return Part(part.data, extra={**part.extra, "videoMetadata": clip}) if clip else part


READERS: dict[str, Reader] = {
    "text": text_part,
    "image": _media,
    "audio": _audio,
    "video": _video,
    DOCUMENT: _media,
}


def media_content(media: InlineData | FileData) -> dict[str, Any]:
    """Media from Gemini as a content of the matching type."""
    if isinstance(media, InlineData):
        return {"type": _kind(media.mime_type), "mime_type": media.mime_type, "data": media.data}
    typed = {} if media.mime_type is None else {"mime_type": media.mime_type}
    return {"type": _kind(media.mime_type or ""), **typed, "uri": media.uri}


def _kind(mime_type: str) -> str:
    kind = mime_type.partition("/")[0].lower()
    return kind if kind in ("image", "audio", "video") else DOCUMENT
