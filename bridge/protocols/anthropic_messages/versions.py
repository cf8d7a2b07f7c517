"""Checks a request against the version in `anthropic-version`.

Versions are dates. An unknown version follows the rules of the latest known version before it: clients are
updated earlier than the bridge, and rejecting a new version would stop all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bridge.gemini.types import JsonObject
from bridge.protocols.json_reading import each_object, invalid_field, quoted

HEADER = "anthropic-version"
WITHOUT_SAMPLING = "2026-10-21"  #: the first version that rejects sampling parameters
KNOWN = ("2023-01-01", "2023-06-01", WITHOUT_SAMPLING)

_SAMPLING = ("temperature", "top_p", "top_k")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def check_version(body: JsonObject, headers: Mapping[str, str]) -> list[str]:
    """The losses to count. Raises InvalidRequest for fields that the version forbids."""
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
