"""Carries signatures of calls, and parts without a field, in protocols with a signature only for thinking.

The thinking block directly before a call carries the call's signature, with a prefix that marks it. The
signature of the thinking itself has no prefix. If it covers only the last part of the text, a prefix holds
the length of that part, since a signed part must never be joined with another. A call that Google's servers
ran, or its response, is a whole part in the place of a signature.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode

import orjson

from bridge.gemini.google_tools import is_server_tool
from bridge.gemini.types import Part
from bridge.gemini.wire import part_from_json, part_to_json

_NEXT = "next:"
_PART = "part:"
_END = re.compile(r"end(\d{1,9}):")


def for_next_call(signature: str) -> str:
    return _NEXT + signature


def for_thought(signature: str, signed: int, whole: int) -> str:
    """The signature of the last `signed` of `whole` characters of a thinking text."""
    return signature if signed == whole else f"end{signed}:{signature}"


def for_part(part: Part) -> str:
    """A call that Google's servers ran, or its response."""
    return _PART + b64encode(orjson.dumps(part_to_json(part))).decode()


def read_thought(text: str, signature: str) -> tuple[list[Part], str | None]:
    """The parts of the thinking, and the signature of the call that follows it."""
    if signature.startswith(_NEXT):
        return _thought(text, None), signature.removeprefix(_NEXT)
    if signature.startswith(_PART):
        return [*_thought(text, None), *_server_tool(signature.removeprefix(_PART))], None
    end = _END.match(signature)
    if end is None:
        return _thought(text, signature or None), None
    before = max(0, len(text) - int(end[1]))
    return [*_thought(text[:before], None), *_thought(text[before:], signature[end.end() :])], None


def _thought(text: str, signature: str | None) -> list[Part]:
    return [Part(text, thought=True, signature=signature)] if text or signature else []


def _server_tool(encoded: str) -> list[Part]:
    """The carried part; nothing if a client changed it."""
    try:
        source = orjson.loads(b64decode(encoded, validate=True))
    except ValueError:
        return []
    part = part_from_json(source) if isinstance(source, dict) else Part()
    return [part] if is_server_tool(part.data) else []
