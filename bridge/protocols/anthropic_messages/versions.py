"""The version that a client asks for in `anthropic-version`, and what that version forbids.

Versions are dates. One that is not known here is held to the rules of the last one before it: clients are
updated sooner than a bridge, and a refusal would stop all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bridge.gemini.types import JsonObject
from bridge.protocols.json_reading import each_object, invalid_field, quoted

HEADER = "anthropic-version"
WITHOUT_SAMPLING = "2026-10-21"  #: the first that takes no sampling parameters
KNOWN = ("2023-01-01", "2023-06-01", WITHOUT_SAMPLING)

_SAMPLING = ("temperature", "top_p", "top_k")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def check_version(body: JsonObject, headers: Mapping[str, str]) -> list[str]:
    """What to note of the version. Raises InvalidRequest for what it forbids."""
    version = headers.get(HEADER)
    if not version:
        return []
    if not _DATE.fullmatch(version):
        raise invalid_field(f"{quoted(version)} is not a valid version", HEADER)
    if version >= WITHOUT_SAMPLING:
        _reject_sampling(body)
        for path, message in each_object(body["messages"], "messages"):
            _reject_blocks(message, f"{path}.content")
    return [] if version in KNOWN else ["messages.unknown_version"]


def _reject_sampling(body: JsonObject) -> None:
    for name in _SAMPLING:
        if name in body:
            raise invalid_field("Extra inputs are not permitted", name)


def _reject_blocks(message: JsonObject, path: str) -> None:
    role, content = message.get("role"), message.get("content")
    for index, block in enumerate(content if isinstance(content, list) else ()):
        kind: Any = block.get("type") if isinstance(block, dict) else None
        if role == "assistant" and kind == "document":
            raise invalid_field("document blocks are not permitted in assistant messages", f"{path}[{index}]")
        if role == "user" and kind == "text" and block.get("citations"):
            raise invalid_field("are not permitted on text of user messages", f"{path}[{index}].citations")
