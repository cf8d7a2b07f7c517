"""Calls that must follow the schema of their function, as clients ask with `strict`.

Gemini checks calls against their schema in the mode VALIDATED, for all functions of a request, and in the
mode ANY. In the mode AUTO it does not promise this.
"""

from __future__ import annotations

from dataclasses import replace

from bridge.gemini.types import GenerateRequest, JsonObject, Tool

AUTO = "AUTO"
VALIDATED = "VALIDATED"  #: the model answers with text, or with a call that follows its schema


def wants_strict_calls(request: GenerateRequest) -> bool:
    return any(function.strict for tool in request.tools for function in tool.functions)


def with_strict_calls(request: GenerateRequest) -> GenerateRequest:
    """The request in the mode VALIDATED, if a function is strict and the model is free to call."""
    mode = calling_config(request).get("mode", AUTO)
    return with_mode(request, VALIDATED) if mode == AUTO and wants_strict_calls(request) else request


def without_strict_calls(request: GenerateRequest) -> GenerateRequest:
    """The request without strict functions, and in the mode AUTO if they were the reason for another."""
    if not wants_strict_calls(request):
        return request
    tools = tuple(
        Tool(tuple(replace(each, strict=False) for each in tool.functions), tool.extra)
        for tool in request.tools
    )
    return without_validation(replace(request, tools=tools))


def without_validation(request: GenerateRequest) -> GenerateRequest:
    """The request in the mode AUTO instead of VALIDATED, if nothing in it needs VALIDATED."""
    calling = calling_config(request)
    needed = "allowedFunctionNames" in calling or wants_strict_calls(request)
    return request if needed or calling.get("mode") != VALIDATED else with_mode(request, AUTO)


def calling_config(request: GenerateRequest) -> JsonObject:
    config: JsonObject = request.tool_config.get("functionCallingConfig") or {}
    return config


def with_mode(request: GenerateRequest, mode: str) -> GenerateRequest:
    calling = {**calling_config(request), "mode": mode}
    return replace(request, tool_config={**request.tool_config, "functionCallingConfig": calling})
