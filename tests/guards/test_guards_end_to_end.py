"""The guards end to end: every protocol, streamed and whole, under real gunicorn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import requests
from gunicorn_bridge import ROOT, gunicorn_bridge
from scripted_gemini import Reply, call_chunk, sse, text_chunk

LOOP = "[System] Detected an infinite loop"
HELD_BACK = "[System] This command was not run"
SCHEMA = {"type": "object", "properties": {"command": {}}}


@dataclass
class Told:
    """An answer of any protocol."""

    text: str
    calls: list[tuple[str, Any]]
    ending: str | None
    raw: str
    events: list[dict[str, Any]]


class Chat:
    path = "/v1/chat/completions"
    history = "messages"
    text_ending, call_ending = "stop", "tool_calls"

    def body(self, *made: tuple[str, Any, str]) -> dict[str, Any]:
        messages: list[Any] = [{"role": "user", "content": "Go."}]
        for number, (name, args, result) in enumerate(made):
            function = {"name": name, "arguments": json.dumps(args)}
            call = {"id": f"c{number}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
        tools = [{"type": "function", "function": {"name": "shell", "parameters": SCHEMA}}]
        return {"model": "gpt-5", "messages": messages, "tools": tools}

    def whole(self, body: dict[str, Any]) -> tuple[str, list[Any], str | None]:
        choice = body["choices"][0]
        made = choice["message"].get("tool_calls") or []
        calls = [(each["function"]["name"], json.loads(each["function"]["arguments"])) for each in made]
        return choice["message"]["content"] or "", calls, choice["finish_reason"]

    def streamed(self, events: list[dict[str, Any]]) -> tuple[str, list[Any], str | None]:
        choices = [choice for event in events for choice in event["choices"]]
        text = "".join(choice["delta"].get("content") or "" for choice in choices)
        made = [each["function"] for choice in choices for each in choice["delta"].get("tool_calls", ())]
        calls = [(each["name"], json.loads(each["arguments"])) for each in made]
        return text, calls, choices[-1]["finish_reason"]


class Messages:
    path = "/v1/messages"
    history = "messages"
    text_ending, call_ending = "end_turn", "tool_use"

    def body(self, *made: tuple[str, Any, str]) -> dict[str, Any]:
        messages: list[Any] = [{"role": "user", "content": "Go."}]
        for number, (name, args, result) in enumerate(made):
            call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": args}
            answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": result}
            messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
        tools = [{"name": "shell", "input_schema": SCHEMA}]
        return {"model": "claude-sonnet-4", "max_tokens": 100, "messages": messages, "tools": tools}

    def whole(self, body: dict[str, Any]) -> tuple[str, list[Any], str | None]:
        text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
        calls = [(each["name"], each["input"]) for each in body["content"] if each["type"] == "tool_use"]
        return text, calls, body["stop_reason"]

    def streamed(self, events: list[dict[str, Any]]) -> tuple[str, list[Any], str | None]:
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        text = "".join(delta.get("text", "") for delta in deltas)
        starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        names = [block["name"] for block in starts if block["type"] == "tool_use"]
        inputs = [json.loads(delta["partial_json"]) for delta in deltas if delta.get("partial_json")]
        (ending,) = [event["delta"] for event in events if event["type"] == "message_delta"]
        assert events[-1]["type"] == "message_stop"
        return text, list(zip(names, inputs, strict=True)), ending["stop_reason"]


class Responses:
    path = "/v1/responses"
    history = "input"
    text_ending, call_ending = "completed", "requires_action"

    def body(self, *made: tuple[str, Any, str]) -> dict[str, Any]:
        items: list[Any] = [{"role": "user", "content": "Go."}]
        for number, (name, args, result) in enumerate(made):
            call = {"type": "function_call", "call_id": f"c{number}", "name": name}
            items.append({**call, "arguments": json.dumps(args)})
            items.append({"type": "function_call_output", "call_id": f"c{number}", "output": result})
        tools = [{"type": "function", "name": "shell", "parameters": SCHEMA}]
        return {"model": "gpt-5", "input": items, "tools": tools}

    def whole(self, body: dict[str, Any]) -> tuple[str, list[Any], str | None]:
        output = body["output"]
        text = "".join(
            content["text"] for item in output if item["type"] == "message" for content in item["content"]
        )
        made = [item for item in output if item["type"] == "function_call"]
        return text, [(item["name"], json.loads(item["arguments"])) for item in made], body["status"]

    def streamed(self, events: list[dict[str, Any]]) -> tuple[str, list[Any], str | None]:
        last = events[-1]
        assert last["type"] == "response.completed"
        text, calls, ending = self.whole(last["response"])
        deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
        assert "".join(deltas) == text
        return text, calls, ending


class Native:
    path = "/v1beta/models/gemini-3.1-pro-preview"
    history = "contents"
    text_ending, call_ending = "STOP", "STOP"

    def body(self, *made: tuple[str, Any, str]) -> dict[str, Any]:
        contents: list[Any] = [{"role": "user", "parts": [{"text": "Go."}]}]
        for name, args, result in made:  # without ids, like Gemini's calls
            response = {"name": name, "response": {"status": "success", "stdout": result}}
            contents.append({"role": "model", "parts": [{"functionCall": {"name": name, "args": args}}]})
            contents.append({"role": "user", "parts": [{"functionResponse": response}]})
        tools = [{"functionDeclarations": [{"name": "shell", "parametersJsonSchema": SCHEMA}]}]
        return {"contents": contents, "tools": tools}

    def whole(self, body: dict[str, Any]) -> tuple[str, list[Any], str | None]:
        return self.streamed([body])

    def streamed(self, events: list[dict[str, Any]]) -> tuple[str, list[Any], str | None]:
        candidates = [candidate for event in events for candidate in event["candidates"]]
        parts = [part for each in candidates for part in each.get("content", {}).get("parts", ())]
        made = [part["functionCall"] for part in parts if "functionCall" in part]
        text = "".join(part.get("text", "") for part in parts)
        return text, [(each["name"], each["args"]) for each in made], candidates[-1].get("finishReason")


class Interactions:
    path = "/v1/interactions"
    history = "input"
    text_ending, call_ending = "completed", "requires_action"

    def body(self, *made: tuple[str, Any, str]) -> dict[str, Any]:
        steps: list[Any] = [{"type": "user_input", "content": "Go."}]
        for number, (name, args, result) in enumerate(made):
            steps.append({"type": "function_call", "id": f"c{number}", "name": name, "arguments": args})
            steps.append({"type": "function_result", "call_id": f"c{number}", "result": result})
        tools = [{"type": "function", "name": "shell", "parameters": SCHEMA}]
        return {"model": "gemini-3.1-pro-preview", "input": steps, "tools": tools}

    def whole(self, body: dict[str, Any]) -> tuple[str, list[Any], str | None]:
        contents = [each for step in body["steps"] for each in step.get("content", ())]
        made = [step for step in body["steps"] if step["type"] == "function_call"]
        text = "".join(each["text"] for each in contents)
        return text, [(step["name"], step["arguments"]) for step in made], body["status"]

    def streamed(self, events: list[dict[str, Any]]) -> tuple[str, list[Any], str | None]:
        assert events[-1]["event_type"] == "interaction.completed"
        deltas = [event["delta"] for event in events if event["event_type"] == "step.delta"]
        text = "".join(delta["text"] for delta in deltas if delta["type"] == "text")
        steps = [event["step"] for event in events if event["event_type"] == "step.start"]
        names = [step["name"] for step in steps if step["type"] == "function_call"]
        inputs = [json.loads(delta["arguments"]) for delta in deltas if delta["type"] == "arguments_delta"]
        return text, list(zip(names, inputs, strict=True)), events[-1]["interaction"]["status"]


PROTOCOLS = pytest.mark.parametrize(
    "protocol",
    [Chat(), Messages(), Responses(), Native(), Interactions()],
    ids=lambda each: type(each).__name__,
)
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def request_id() -> str:
    return f"guards-{uuid4().hex}"


def client_for(bridge: Any, request_id: str) -> Any:
    def asked(protocol: Any, stream: bool, *made: tuple[str, Any, str]) -> Told:
        body, path = {**protocol.body(*made), "stream": stream}, protocol.path
        if isinstance(protocol, Native):
            del body["stream"]
            path += ":streamGenerateContent?alt=sse" if stream else ":generateContent"
        answer = requests.post(
            f"{bridge.address}{path}",
            json=body,
            headers={"X-Request-Id": request_id},
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        raw = answer.content.decode()
        events = list(sent_events(raw)) if stream else []
        read = protocol.streamed(events) if stream else protocol.whole(json.loads(raw))
        return Told(*read, raw, events)

    return asked


@pytest.fixture
def ask(bridge, request_id):
    return client_for(bridge, request_id)


RULES = """
[[rule]]
tool = "sh*"
args_pattern = "forbidden-word"
decision = "deny"
reason = "Not in this house."

[[rule]]
tool = "shell"
args_pattern = "doubtful-word"
decision = "ask"
"""


@pytest.fixture(scope="module")
def ruled_bridge(_gemini, tmp_path_factory):
    """A bridge with policy rules and an enabled secrets guard."""
    folder = tmp_path_factory.mktemp("ruled") / "config"
    shutil.copytree(ROOT / "config", folder, ignore=shutil.ignore_patterns("local.toml"))
    guards = (folder / "guards.toml").read_text()
    guards = guards.replace('secrets = "off"', 'secrets = "enforce"') + RULES
    (folder / "guards.toml").write_text(guards)
    with gunicorn_bridge(
        GEMINI_API_KEY="key-for-the-rules",
        GOOGLE_GEMINI_BASE_URL=_gemini.address,
        BRIDGE_CONFIG_DIR=str(folder),
    ) as running:
        yield running


def sent_events(raw: str) -> Iterator[dict[str, Any]]:
    for line in raw.splitlines():
        if line.startswith("data: {"):
            event = json.loads(line.removeprefix("data: "))
            if event.get("type") not in ("ping", "keepalive"):
                yield event


def lines_of(bridge: Any, request_id: str) -> list[dict[str, Any]]:
    """Return the log entries of a request after its last one is written."""
    assert bridge.request(request_id=request_id)
    return bridge.log_entries(request_id=request_id)


def actions(bridge: Any, request_id: str) -> list[tuple[str, str, str]]:
    acted = [line for line in lines_of(bridge, request_id) if line["message"] == "guard acted"]
    return [(line["guard"], line["action"], line["mode"]) for line in acted]


def notes(bridge: Any, request_id: str) -> dict[str, int]:
    (line,) = [line for line in lines_of(bridge, request_id) if line["message"] == "request"]
    return {name: number for name, number in line.get("notes", {}).items() if name.startswith("guard.")}


def calls(*each: tuple[str, Any], text: str = "") -> list[bytes]:
    said = [text_chunk(text)] if text else []
    made = [call_chunk(name, args, f"g{uuid4().hex}") for name, args in each]
    return sse(*said, *made, {"candidates": [{"finishReason": "STOP", "index": 0}]})


@PROTOCOLS
@BOTH
def test_a_command_string_becomes_a_list_of_words(ask, bridge, gemini, request_id, protocol, stream):
    gemini.will_say(calls(("shell", {"command": 'ls -F "My Documents"', "workdir": "/tmp"})))
    told = ask(protocol, stream)
    assert told.calls == [("shell", {"command": ["ls", "-F", "My Documents"], "workdir": "/tmp"})]
    assert told.ending == protocol.call_ending
    assert actions(bridge, request_id) == [("shell_arguments", "changed", "enforce")]
    assert notes(bridge, request_id) == {"guard.shell_arguments.changed": 1}


@PROTOCOLS
@BOTH
def test_a_blocked_call_becomes_text_and_the_turn_ends_normally(
    ask, bridge, gemini, request_id, protocol, stream
):
    gemini.will_say(calls(("shell", {"command": ["cat", "canary-word", "|", "wc"]})))
    told = ask(protocol, stream)
    assert told.calls == []
    assert told.ending == protocol.text_ending
    assert told.text.startswith(HELD_BACK)
    assert '"tool_use"' not in told.raw
    assert "function_call" not in told.raw
    assert actions(bridge, request_id) == [("shell_gate", "held_back", "enforce")]
    assert notes(bridge, request_id) == {"guard.shell_gate.held_back": 1}
    assert "canary-word" not in bridge.lines()


@PROTOCOLS
@BOTH
def test_other_calls_beside_a_blocked_call_are_made(ask, gemini, protocol, stream):
    piped, plain = {"command": ["a", "|", "b"]}, {"command": ["ls", "-a"]}
    gemini.will_say(calls(("shell", piped), ("shell", plain)))
    told = ask(protocol, stream)
    assert told.calls == [("shell", plain)]
    assert told.ending == protocol.call_ending
    assert HELD_BACK in told.text


@PROTOCOLS
@BOTH
def test_the_reason_is_separated_from_the_models_text(ask, gemini, protocol, stream):
    piped = ("shell", {"command": ["a", "|", "b"]})
    gemini.will_say(calls(piped, piped, text="Let me look."))
    told = ask(protocol, stream)
    assert told.text.startswith("Let me look.")
    assert told.text.count(HELD_BACK) == 2
    assert all(before[-1].isspace() for before in told.text.split("[System]")[:-1])


@PROTOCOLS
@BOTH
def test_a_loop_is_answered_without_an_upstream_call(ask, bridge, gemini, request_id, protocol, stream):
    made = ("shell", {"command": ["ls", "canary-place"]}, "ls: error: no such file")
    told = ask(protocol, stream, made, made)
    assert gemini.asked == []
    assert told.text.startswith(LOOP)
    assert (told.calls, told.ending) == ([], protocol.text_ending)
    assert actions(bridge, request_id) == [("loop", "answered", "enforce")]
    assert notes(bridge, request_id) == {"guard.loop.answered": 1}
    assert "canary-place" not in bridge.lines()


def test_the_loop_text_is_in_delta_done_and_completed(ask, gemini):
    made = ("shell", {"command": ["ls"]}, "ls: error")
    told = ask(Responses(), True, made, made)
    by_type = {event["type"]: event for event in told.events}
    assert by_type["response.output_text.delta"]["delta"].startswith(LOOP)
    assert by_type["response.output_text.done"]["text"].startswith(LOOP)
    for name in ("response.done", "response.completed"):
        response = by_type[name]["response"]
        assert response["status"] == "completed"
        assert response["output"][0]["content"][0]["text"].startswith(LOOP)
    assert gemini.asked == []


@PROTOCOLS
@BOTH
def test_a_user_message_after_a_loop_reaches_gemini(ask, gemini, protocol, stream):
    made = ("shell", {"command": ["ls"]}, "ls: error")
    body = protocol.body(made, made)
    said = {"parts": [{"text": "Do go on."}]} if "contents" in body else {"content": "Do go on."}
    body[protocol.history].append({"role": "user", **said})

    class Continued(type(protocol)):
        def body(self, *_: Any) -> dict[str, Any]:
            return body

    assert ask(Continued(), stream).text == "Hello."
    assert len(gemini.asked) == 1


@PROTOCOLS
@BOTH
def test_a_long_result_reaches_gemini_truncated(ask, bridge, gemini, request_id, protocol, stream):
    output = "".join(f"canary line {number}\n" for number in range(10_000))
    assert ask(protocol, stream, ("shell", {"command": ["cat", "x"]}, output)).text == "Hello."
    parts = [part for content in gemini.asked[-1].body["contents"] for part in content["parts"]]
    (response,) = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    assert response["status"] == "success"
    assert len(response["stdout"]) < 51_000
    assert response["stdout"].startswith("canary line 0\n")
    assert response["stdout"].endswith("canary line 9999\n")
    assert "left out" in response["stdout"]
    assert actions(bridge, request_id) == [("large_output", "changed", "enforce")]
    assert "canary line" not in bridge.lines()


@PROTOCOLS
@BOTH
def test_a_patch_with_stray_plus_signs_is_repaired(ask, bridge, gemini, request_id, protocol, stream):
    patch = "+*** Begin Patch\n+*** Add File: a.txt\n+hello\n+*** End Patch\n"
    mended = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch\n"
    gemini.will_say(calls(("apply_patch", {"input": patch})))
    assert ask(protocol, stream).calls == [("apply_patch", {"input": mended})]
    assert actions(bridge, request_id) == [("apply_patch", "changed", "enforce")]


@PROTOCOLS
@BOTH
def test_an_ordinary_call_passes_and_is_not_logged(ask, bridge, gemini, request_id, protocol, stream):
    script = {"command": ["bash", "-lc", "a | b > c"]}
    gemini.will_say(calls(("shell", script), ("Bash", {"command": "a && b"})))
    told = ask(protocol, stream)
    assert told.calls == [("shell", script), ("Bash", {"command": "a && b"})]
    assert actions(bridge, request_id) == []
    assert notes(bridge, request_id) == {}


@pytest.mark.parametrize("result", ["error\n", "line\n"], ids=["a loop", "no loop"])
def test_token_counting_uses_the_guarded_request(bridge, gemini, result):
    gemini.will_say(Reply([b'{"totalTokens": 5}']))
    made = ("shell", {"command": ["cat", "x"]}, result * 20_000)
    body = Messages().body(made, made)
    answer = requests.post(f"{bridge.address}/v1/messages/count_tokens", json=body, timeout=60)
    assert answer.json() == {"input_tokens": 5}
    contents = gemini.asked[-1].body["generateContentRequest"]["contents"]
    parts = [part for content in contents for part in content["parts"]]
    told = [part["functionResponse"]["response"]["stdout"] for part in parts if "functionResponse" in part]
    assert len(told) == 2
    assert all(len(each) < 51_000 and "left out" in each for each in told)


@PROTOCOLS
@BOTH
def test_a_denied_call_becomes_text_with_its_reason(ruled_bridge, gemini, request_id, protocol, stream):
    gemini.will_say(calls(("shell", {"command": ["cat", "forbidden-word"]})))
    told = client_for(ruled_bridge, request_id)(protocol, stream)
    assert told.calls == []
    assert told.ending == protocol.text_ending
    assert told.text == "[System] The call to shell was not run. Not in this house."
    assert actions(ruled_bridge, request_id) == [("tool_policy", "held_back", "enforce")]


@PROTOCOLS
@BOTH
def test_a_call_that_needs_approval_is_made_and_marked(ruled_bridge, gemini, request_id, protocol, stream):
    gemini.will_say(calls(("shell", {"command": ["cat", "doubtful-word"]})))
    told = client_for(ruled_bridge, request_id)(protocol, stream)
    assert told.calls == [("shell", {"command": ["cat", "doubtful-word"]})]
    assert told.ending == protocol.call_ending
    assert notes(ruled_bridge, request_id) == {"guard.tool_policy.asked": 1}


@pytest.mark.parametrize("method", ["embedContent", "batchEmbedContents"])
def test_a_secret_in_a_text_to_be_embedded_does_not_reach_gemini(ruled_bridge, gemini, request_id, method):
    secret = "ghp_" + "a1B2" * 9
    one = {"content": {"parts": [{"text": f"TOKEN={secret}"}]}, "taskType": "CLUSTERING"}
    body = {"requests": [one, one]} if method == "batchEmbedContents" else one
    gemini.will_say(Reply([b'{"embedding": {"values": [1]}}']))
    requests.post(
        f"{ruled_bridge.address}/v1beta/models/gemini-embedding-001:{method}",
        json=body,
        headers={"X-Request-Id": request_id},
        timeout=60,
    )
    sent = json.dumps(gemini.asked[-1].body)
    assert secret not in sent
    assert "TOKEN=[secret removed]" in sent
    assert '"taskType": "CLUSTERING"' in sent
    assert actions(ruled_bridge, request_id) == [("secrets", "changed", "enforce")]


def test_a_secret_in_an_input_to_be_embedded_does_not_reach_gemini(ruled_bridge, gemini, request_id):
    secret = "ghp_" + "a1B2" * 9
    gemini.will_say(Reply([b'{"embeddings": [{"values": [1]}, {"values": [1]}]}']))
    answer = requests.post(
        f"{ruled_bridge.address}/v1/embeddings",
        json={"model": "gemini-embedding-001", "input": ["Hello", f"TOKEN={secret}"]},
        headers={"X-Request-Id": request_id},
        timeout=60,
    )
    assert answer.status_code == 200
    sent = json.dumps(gemini.asked[-1].body)
    assert secret not in sent
    assert "TOKEN=[secret removed]" in sent
    assert actions(ruled_bridge, request_id) == [("secrets", "changed", "enforce")]


@PROTOCOLS
@BOTH
def test_a_secret_in_a_result_does_not_reach_gemini(ruled_bridge, gemini, request_id, protocol, stream):
    secret = "ghp_" + "a1B2" * 9
    client_for(ruled_bridge, request_id)(protocol, stream, ("shell", {"command": ["env"]}, f"TOKEN={secret}"))
    assert secret not in json.dumps(gemini.asked[-1].body)
    assert "TOKEN=[secret removed]" in json.dumps(gemini.asked[-1].body)
    assert actions(ruled_bridge, request_id) == [("secrets", "changed", "enforce")]
