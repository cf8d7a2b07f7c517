"""Messages in the form of Chat Completions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import orjson

from bridge.errors import InvalidRequest
from bridge.gemini.types import FileData, InlineData
from bridge.upstream.openai.conversation import ASSISTANT, SYSTEM, TOOL, Block, Call, Message
from bridge.upstream.openai.dialects import Dialect, ReasoningBack

Fields = dict[str, Any]

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}
PDF = "application/pdf"


def chat_messages(messages: Iterable[Message], dialect: Dialect) -> list[Fields]:
    return [_ROLES.get(message.role, _question)(message, dialect) for message in messages]


def _instruction(message: Message, _dialect: Dialect) -> Fields:
    return {"role": SYSTEM, "content": message.text}


def _question(message: Message, dialect: Dialect) -> Fields:
    blocks = [_as_text(block) for block in message.blocks]
    if all(isinstance(block, str) for block in blocks):
        return {"role": message.role, "content": "\n".join(map(str, blocks))}
    return {"role": message.role, "content": [_block(block, dialect) for block in blocks]}


def _result(message: Message, dialect: Dialect) -> Fields:
    return {"role": TOOL, "tool_call_id": dialect.call_id(message.call_id), "content": message.text}


def _answer(message: Message, dialect: Dialect) -> Fields:
    fields: Fields = {"role": ASSISTANT, "content": message.text or None}
    if message.calls:
        fields["tool_calls"] = [_call(call, dialect) for call in message.calls]
    if _returns_reasoning(message, dialect.reasoning_back):
        fields[dialect.reasoning_field] = "".join(message.thoughts)
    if fields["content"] is None and (dialect.reasoning_field in fields or not message.calls):
        fields["content"] = ""  # some servers refuse null there
    return fields


def _returns_reasoning(message: Message, rule: ReasoningBack) -> bool:
    if rule is ReasoningBack.WITH_CALLS:
        return bool(message.calls)
    return rule is ReasoningBack.ALWAYS and bool(message.thoughts)


def _call(call: Call, dialect: Dialect) -> Fields:
    arguments = orjson.dumps(dict(call.args)).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": dialect.call_id(call.id), "type": "function", "function": function}


# --- texts and media ---------------------------------------------------------------------------------


def _as_text(block: Block) -> Block:
    """A text file as its text; every other block as it is."""
    if isinstance(block, InlineData) and block.mime_type.startswith("text/"):
        return _decoded(block)
    return block


def _decoded(block: InlineData) -> str:
    try:
        return base64.b64decode(block.data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise InvalidRequest(f"A file of the type {block.mime_type[:80]} is not text in base64") from None


def _block(block: Block, dialect: Dialect) -> Fields:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if isinstance(block, FileData):
        return _at_address(block, dialect)
    kind = block.mime_type.partition(";")[0].strip().lower()
    if not dialect.text_only:
        if kind.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": _data_url(block)}}
        if kind in _AUDIO_FORMATS and dialect.audio:
            audio = {"data": block.data, "format": _AUDIO_FORMATS[kind]}
            return {"type": "input_audio", "input_audio": audio}
        if kind == PDF and dialect.files:
            file = {"filename": "document.pdf", "file_data": _data_url(block)}
            return {"type": "file", "file": file}
    raise InvalidRequest(f"This upstream does not accept media of the type {kind[:80]!r}; remove the file")


def _data_url(block: InlineData) -> str:
    return f"data:{block.mime_type};base64,{block.data}"


def _at_address(file: FileData, dialect: Dialect) -> Fields:
    is_image = (file.mime_type or "image/").startswith("image/")
    if is_image and dialect.image_addresses and not dialect.text_only and file.uri.startswith("https://"):
        return {"type": "image_url", "image_url": {"url": file.uri}}
    raise InvalidRequest(
        "This upstream does not fetch the file at this address; send the content itself, as base64",
        param=file.param or None,
    )


_ROLES = {SYSTEM: _instruction, ASSISTANT: _answer, TOOL: _result}
