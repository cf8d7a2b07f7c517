"""Reads contents that several protocols share: a string or a list of typed parts, texts, tool results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bridge.gemini.refusals import PREFIX as REFUSAL_PREFIX
from bridge.gemini.tool_results import tool_response
from bridge.gemini.types import USER, Content, FileData, FunctionResponse, InlineData, JsonObject, Part
from bridge.protocols.json_reading import each_object, invalid_field, lookup_by, required

REMINDER = "<system-reminder>\n{}\n</system-reminder>"

Reader = Callable[[JsonObject, str], Part]


def read_content(content: Any, path: str, readers: Mapping[str, Reader]) -> list[Part]:
    if isinstance(content, str):
        return [Part(content)]
    if not isinstance(content, list):
        raise invalid_field("must be a string or an array of content parts", path)
    return [
        lookup_by(part, "type", readers, where)(part, where) for where, part in each_object(content, path)
    ]


def text_part(part: JsonObject, path: str) -> Part:
    return Part(required(part, "text", str, path))


def refusal_part(part: JsonObject, path: str) -> Part:
    """A refusal of another model. The bridge's own are no text of Gemini's."""
    refusal = required(part, "refusal", str, path)
    return Part("" if refusal.startswith(REFUSAL_PREFIX) else refusal)


def only_texts(parts: Sequence[Part], param: str) -> list[str]:
    texts = [part.data for part in parts if isinstance(part.data, str)]
    if len(texts) < len(parts):
        raise invalid_field("only text is supported here", param)
    return texts


def system_content(texts: Sequence[str]) -> Content | None:
    """The system instruction from all instructions of the request, in their order."""
    return Content(None, (Part("\n\n".join(texts)),)) if texts else None


def reminders(texts: Iterable[str]) -> Content:
    """Instructions in the middle of a conversation, marked like the reminders of agents. They stay in place:
    in the system instruction they would change the prefix that Gemini has cached."""
    return Content(USER, tuple(Part(REMINDER.format(text)) for text in texts if text.strip()))


def tool_result(parts: Sequence[Part], name: str, call_id: str | None, failed: bool | None = None) -> Part:
    """`name` is the name of the call. The repair of the history fills in an empty name."""
    text = "\n".join(part.data for part in parts if isinstance(part.data, str))
    media = tuple(part.data for part in parts if isinstance(part.data, InlineData | FileData))
    return Part(FunctionResponse(name, tool_response(name, text, failed), call_id, media))
