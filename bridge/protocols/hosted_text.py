"""The result of a tool that the bridge ran, as protocols show it: one text."""

from __future__ import annotations

from typing import Any

import orjson

from bridge.gemini.hosted_tools import HostedResult
from bridge.gemini.types import JsonObject


def result_text(result: HostedResult) -> str:
    """The output or the error alone, if there is nothing else."""
    response = result.response
    named = "error" if result.is_error else "output"
    alone = response[named] if response.keys() == {named} else dict(response)
    return alone if isinstance(alone, str) else orjson.dumps(alone).decode()


def result_object(text: Any, failed: bool) -> JsonObject:
    """The response object of a result that a client sends back."""
    return {"error" if failed else "output": text if isinstance(text, str) else orjson.dumps(text).decode()}
