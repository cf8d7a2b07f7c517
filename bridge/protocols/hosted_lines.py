"""Calls of the bridge's own tools as lines of text, for protocols and clients without a form for them."""

from __future__ import annotations

from typing import Any

import orjson

from bridge.gemini.hosted_tools import Hosted, HostedCall, HostedKind
from bridge.gemini.types import JsonObject

LONGEST_ARGUMENTS = 300
LONGEST_ERROR = 300


def hosted_line(hosted: Hosted) -> str:
    """One line: what is called, or how it ended. The result itself is for the model. Lists of tools and
    requests for approval have no line."""
    name = hosted.function_name
    if hosted.kind is not HostedKind.CALL:
        return ""
    if isinstance(hosted, HostedCall):
        return f"→ {name} {_cut(as_json(hosted.arguments), LONGEST_ARGUMENTS)}\n"
    text = result_text(hosted.response)
    if hosted.is_error:
        return f"← {name} failed: {_cut(text, LONGEST_ERROR)}\n"
    return f"← {name}: {len(text)} characters\n"


def result_text(response: JsonObject) -> str:
    """The result as a text: the only value of the response, else the whole, as JSON unless it is a text."""
    values = list(response.values())
    told = values[0] if len(values) == 1 else response
    return told if isinstance(told, str) else as_json(told)


def as_json(value: Any) -> str:
    return orjson.dumps(value, default=dict).decode()


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
