"""Tools with `strict`: Gemini checks their calls, as far as it accepts that."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import requests
from gunicorn_bridge import Bridge
from scripted_gemini import Reply, ScriptedGemini

from bridge.errors import SchemaRefused, StrictCallsRefused
from bridge.gemini.repairs import REPAIRS
from bridge.gemini.strict_calls import with_strict_calls
from bridge.gemini.types import FunctionDeclaration, GenerateRequest, JsonObject, Tool
from bridge.state.expiring_names import BETWEEN_LOOKS
from bridge.upstream.errors import error_from_response

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOSS = "tools.strict"


def post(bridge: Bridge, path: str, **body: Any) -> requests.Response:
    body = {"model": "gemini-3.8-flash", **body}
    answer = requests.post(
        f"{bridge.address}{path}", json=body, headers={"Authorization": "Bearer key"}, timeout=30
    )
    assert answer.status_code == 200, answer.text
    return answer


def ask(bridge: Bridge, protocol: str, strict: Any, **more: Any) -> requests.Response:
    function = {"name": "look", "strict": strict}
    hello = [{"role": "user", "content": "Hello"}]
    if protocol == "chat":
        tool = {"type": "function", "function": {**function, "parameters": SCHEMA}}
        return post(bridge, "/v1/chat/completions", messages=hello, tools=[tool], **more)
    if protocol == "responses":
        tool = {"type": "function", **function, "parameters": SCHEMA}
        return post(bridge, "/v1/responses", input=hello, tools=[tool], **more)
    tool = {**function, "input_schema": SCHEMA}
    return post(bridge, "/v1/messages", messages=hello, max_tokens=99, tools=[tool], **more)


def mode(gemini: ScriptedGemini) -> Any:
    config = gemini.asked[-1].body.get("toolConfig") or {}
    return (config.get("functionCallingConfig") or {}).get("mode")


EACH_PROTOCOL = pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])


@EACH_PROTOCOL
@pytest.mark.parametrize(("strict", "expected"), [(True, "VALIDATED"), (False, None), (None, None)])
def test_a_strict_tool_makes_gemini_check_its_calls(bridge, gemini, protocol, strict, expected):
    answer = ask(bridge, protocol, strict)
    assert mode(gemini) == expected
    assert "x-bridge-losses" not in answer.headers


@EACH_PROTOCOL
def test_a_free_choice_is_checked(bridge, gemini, protocol):
    ask(bridge, protocol, True, tool_choice={"type": "auto"} if protocol == "messages" else "auto")
    assert mode(gemini) == "VALIDATED"


@pytest.mark.parametrize(("choice", "expected"), [("required", "ANY"), ("none", "NONE")])
def test_a_forced_or_forbidden_call_keeps_its_mode(bridge, gemini, choice, expected):
    ask(bridge, "chat", True, tool_choice=choice)
    assert mode(gemini) == expected


def refusal(message: str) -> Reply:
    envelope = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}}
    return Reply([json.dumps(envelope).encode()], status=400)


def test_a_refused_mode_is_dropped_and_remembered(bridge, gemini):
    model = {"model": "gemini-3.1-pro-preview"}
    gemini.will_say(refusal("Invalid value at 'tool_config.function_calling_config.mode', \"VALIDATED\""))
    ask(bridge, "chat", True, **model)
    assert mode(gemini) == "AUTO"
    time.sleep(BETWEEN_LOOKS)  # until every worker knows it
    answer = ask(bridge, "chat", True, **model)
    assert (len(gemini.asked), mode(gemini)) == (3, "AUTO")
    assert answer.headers["x-bridge-losses"] == LOSS


def test_a_schema_that_gemini_cannot_check_is_sent_unchecked_and_unchanged(bridge, gemini):
    gemini.will_say(refusal("The specified schema produces a constraint that has too many states"))
    answer = ask(bridge, "responses", True)
    first, second = (each.body for each in gemini.asked)
    assert (mode(gemini), first["tools"]) == ("AUTO", second["tools"])
    assert answer.json()["status"] == "completed"


# --- without a bridge --------------------------------------------------------------------------------


def request(config: JsonObject, *, strict: bool = True) -> GenerateRequest:
    tool = Tool((FunctionDeclaration("f", schema=SCHEMA, strict=strict), FunctionDeclaration("g")))
    return GenerateRequest("m", (), tools=(tool,), tool_config={"functionCallingConfig": config})


def test_limited_tools_stay_checked_without_a_strict_tool():
    limited = request({"mode": "VALIDATED", "allowedFunctionNames": ["f"]})
    assert with_strict_calls(limited) is limited
    (repair,) = REPAIRS[StrictCallsRefused]
    assert repair.apply(limited).tool_config == limited.tool_config


def test_nothing_changes_without_a_strict_tool():
    plain = request({"mode": "AUTO"}, strict=False)
    assert with_strict_calls(plain) is plain
    assert all(repair.apply(plain) is plain for repair in REPAIRS[StrictCallsRefused])


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Function calling mode VALIDATED is not supported for this model.", StrictCallsRefused),
        ("Function calling config is set without function_declarations.", SchemaRefused),
    ],
)
def test_a_refused_mode_is_told_from_a_refused_schema(message, expected):
    envelope = {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}}
    assert type(error_from_response(400, json.dumps(envelope).encode(), "m")) is expected
