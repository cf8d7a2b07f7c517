"""Converts chat messages to Gemini contents. Each message becomes its own content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from bridge.gemini.freeform import freeform_call
from bridge.gemini.media import inline_from_base64, media_from_url
from bridge.gemini.media_types import MP4, PDF
from bridge.gemini.refusals import PREFIX as REFUSAL_PREFIX
from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    JsonObject,
    Part,
)
from bridge.protocols.content_parts import (
    Reader,
    only_texts,
    read_content,
    refusal_part,
    reminders,
    system_content,
    text_part,
    tool_result,
)
from bridge.protocols.json_reading import (
    arguments_object,
    each_object,
    invalid_field,
    lookup_by,
    optional,
    quoted,
    required,
)
from bridge.protocols.openai_chat.part_order import arrange, default_parts

AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mp3"}
FILE_TYPE_OF_BARE_BASE64 = PDF


class ChatMessages:
    """The conversation so far, message by message."""

    def __init__(self) -> None:
        self.contents: list[Content] = []
        self.losses: list[str] = []
        self._system: list[str] = []
        self._call_names: dict[str, str] = {}

    @property
    def system(self) -> Content | None:
        return system_content(self._system)

    def add(self, message: JsonObject, path: str) -> None:
        self.losses += _lost_fields(message)
        lookup_by(message, "role", self._ROLES, path)(self, message, path)

    def _instruction(self, message: JsonObject, path: str) -> None:
        text = "\n\n".join(only_texts(_content_parts(message, path), f"{path}.content"))
        if self.contents:
            self.contents.append(reminders([text]))
        elif text.strip():
            self._system.append(text)

    def _user(self, message: JsonObject, path: str) -> None:
        self.contents.append(Content(USER, tuple(_content_parts(message, path))))

    def _assistant(self, message: JsonObject, path: str) -> None:
        reasoning = optional(message, "reasoning_content", str, path) or ""
        answer = "".join(only_texts(_content_parts(message, path, must_exist=False), f"{path}.content"))
        answer += _refusal(message, path)
        calls = self._calls(message, path)
        images = _images(message, path)
        if message.get("audio"):
            self.losses.append("chat.assistant_audio")
        parts = self._ordered_parts(message, reasoning, answer, calls, images)
        self.contents.append(Content(MODEL, tuple(parts)))

    def _ordered_parts(
        self, message: JsonObject, reasoning: str, answer: str, calls: list[Part], images: list[Part]
    ) -> list[Part]:
        layout = _google(message).get("parts")
        if isinstance(layout, list):
            parts = arrange(layout, reasoning, answer, calls, images)
            if parts is not None:
                return parts
            self.losses.append("chat.layout_does_not_fit")
        return [*default_parts(reasoning, answer), *images, *calls]

    def _calls(self, message: JsonObject, path: str) -> list[Part]:
        calls = [
            self._call(call, where)
            for where, call in each_object(
                optional(message, "tool_calls", list, path) or [], f"{path}.tool_calls"
            )
        ]
        if function := optional(message, "function_call", dict, path):
            signature = _google(message).get("thought_signature")
            calls.append(_call_part(function, None, signature, f"{path}.function_call"))
        return calls

    def _call(self, call: JsonObject, path: str) -> Part:
        call_id = required(call, "id", str, path)
        signature = _google(call).get("thought_signature")
        if call.get("type") == "custom":
            custom = required(call, "custom", dict, path)
            name = required(custom, "name", str, f"{path}.custom")
            text = required(custom, "input", str, f"{path}.custom")
            part = Part(freeform_call(name, text, call_id), signature=_text_or_none(signature))
        else:
            part = _call_part(required(call, "function", dict, path), call_id, signature, f"{path}.function")
        assert isinstance(part.data, FunctionCall)
        self._call_names[call_id] = part.data.name
        return part

    def _tool(self, message: JsonObject, path: str) -> None:
        call_id = required(message, "tool_call_id", str, path)
        # Clients that shorten a history keep results without their call; some of them send the tool's name
        # too.
        name = self._call_names.get(call_id) or optional(message, "name", str, path) or ""
        self.contents.append(Content(USER, (_response_part(message, name, call_id, path),)))

    def _function(self, message: JsonObject, path: str) -> None:
        name = required(message, "name", str, path)
        self.contents.append(Content(USER, (_response_part(message, name, None, path),)))

    #: A class attribute: in each object it would be a reference cycle.
    _ROLES: ClassVar[Mapping[str, Callable[[ChatMessages, JsonObject, str], None]]] = {
        "system": _instruction,
        "developer": _instruction,
        "user": _user,
        "assistant": _assistant,
        "tool": _tool,
        "function": _function,
    }


def _lost_fields(message: JsonObject) -> list[str]:
    """The dropped fields of a message and of its content parts. A function's result needs its name."""
    named = message.get("name") and message.get("role") not in ("function", "tool")
    losses = ["chat.name"] if named else []
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            losses += _lost_part_fields(part)
    return losses


def _lost_part_fields(part: JsonObject) -> list[str]:
    image, file = part.get("image_url"), part.get("file")
    detail = image.get("detail") if isinstance(image, dict) else None
    losses = ["chat.image_detail"] if detail not in (None, "auto") else []
    if isinstance(file, dict) and file.get("filename"):
        losses.append("chat.filename")
    return losses


def _refusal(message: JsonObject, path: str) -> str:
    """A refusal of another model. The bridge's own are no text of Gemini's."""
    refusal = optional(message, "refusal", str, path) or ""
    return "" if refusal.startswith(REFUSAL_PREFIX) else refusal


def _call_part(function: JsonObject, call_id: str | None, signature: Any, path: str) -> Part:
    name = required(function, "name", str, path)
    arguments = arguments_object(optional(function, "arguments", str, path) or "")
    return Part(FunctionCall(name, arguments, call_id), signature=_text_or_none(signature))


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _google(holder: JsonObject) -> JsonObject:
    """The bridge's own data in `extra_content`. It is optional: data of another shape is ignored."""
    extra = holder.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    return google if isinstance(google, dict) else {}


def _response_part(message: JsonObject, name: str, call_id: str | None, path: str) -> Part:
    return tool_result(_content_parts(message, path, must_exist=False), name, call_id)


def _images(message: JsonObject, path: str) -> list[Part]:
    images = optional(message, "images", list, path) or []
    return [_image_url(image, where) for where, image in each_object(images, f"{path}.images")]


# --- content parts -----------------------------------------------------------------------------------


def _content_parts(message: JsonObject, path: str, *, must_exist: bool = True) -> list[Part]:
    content = message.get("content")
    if content is None and not must_exist:
        return []
    return read_content(content, f"{path}.content", _PART_READERS)


def _image_url(part: JsonObject, path: str) -> Part:
    image = part.get("image_url")
    if isinstance(image, str):  # the short form that some editors send
        return Part(media_from_url(image, f"{path}.image_url"))
    image = required(part, "image_url", dict, path)
    return Part(media_from_url(required(image, "url", str, f"{path}.image_url"), f"{path}.image_url.url"))


def _video_url(part: JsonObject, path: str) -> Part:
    video = required(part, "video_url", dict, path)
    return Part(
        media_from_url(required(video, "url", str, f"{path}.video_url"), f"{path}.video_url.url", MP4)
    )


def _input_audio(part: JsonObject, path: str) -> Part:
    audio, where = required(part, "input_audio", dict, path), f"{path}.input_audio"
    sound_format = required(audio, "format", str, where)
    mime_type = AUDIO_TYPES.get(sound_format)
    if mime_type is None:
        raise invalid_field(
            f"must be one of {', '.join(AUDIO_TYPES)}, not {quoted(sound_format)}", f"{where}.format"
        )
    return Part(inline_from_base64(mime_type, required(audio, "data", str, where), f"{where}.data"))


def _file(part: JsonObject, path: str) -> Part:
    file, where = required(part, "file", dict, path), f"{path}.file"
    if (file_id := optional(file, "file_id", str, where)) is not None:
        return Part(media_from_url(file_id, f"{where}.file_id", PDF))
    data = required(file, "file_data", str, where)
    if data[:8].lower().startswith(("data:", "https://")):
        return Part(media_from_url(data, f"{where}.file_data", PDF))
    return Part(inline_from_base64(FILE_TYPE_OF_BARE_BASE64, data, f"{where}.file_data"))


_PART_READERS: dict[str, Reader] = {
    "text": text_part,
    "refusal": refusal_part,
    "image_url": _image_url,
    "video_url": _video_url,
    "input_audio": _input_audio,
    "file": _file,
}
