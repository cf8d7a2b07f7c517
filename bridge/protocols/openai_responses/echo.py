"""The fields of a request that its response repeats, in the vendor's complete form."""

from __future__ import annotations

from typing import Any

from bridge.gemini.types import JsonObject
from bridge.protocols.openai_responses.mcp_tools import without_secrets

#: Each field with the value in force if the request does not name it.
_ECHOED: dict[str, Any] = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
}


def echoed_fields(body: JsonObject, *, with_tools: bool) -> dict[str, Any]:
    echo = {key: default if body.get(key) is None else body[key] for key, default in _ECHOED.items()}
    echo["reasoning"] = {"effort": None, "summary": None, **(body.get("reasoning") or {})}
    echo["text"] = _text(body.get("text") or {})
    echo["tools"] = [_tool(tool) for tool in body.get("tools") or ()] if with_tools else []
    return echo


def _text(text: JsonObject) -> dict[str, Any]:
    form = text.get("format") or {"type": "text"}
    if form.get("type") == "json_schema":
        form = {"name": "response", "description": None, **form, "strict": form.get("strict") is True}
    return {**text, "format": form}


def _tool(tool: Any) -> Any:
    """A tool with the fields that the vendor always sends. Nested functions of Chat Completions get the flat
    form."""
    if isinstance(tool, dict) and tool.get("type") == "mcp":
        return without_secrets(tool)
    if not isinstance(tool, dict) or tool.get("type") not in ("function", "namespace"):
        return tool
    if tool["type"] == "namespace":
        return {"description": "", **tool}
    nested = tool.get("function")
    flat = {"type": "function", **nested} if isinstance(nested, dict) else tool
    return {"description": None, "parameters": None, "strict": None, **flat}


def new_response(response_id: str, now: float, model: str, echo: JsonObject) -> dict[str, Any]:
    """The response before its first item."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": int(now),
        "completed_at": None,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "usage": None,
        **echo,
    }
