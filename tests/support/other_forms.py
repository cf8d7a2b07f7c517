"""Gemini's JSON as the bodies of other servers, and their requests as Gemini's JSON."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from scripted_chat import lines, sse
from scripted_gemini import Reply

Body = dict[str, Any]

_FINISH = {"STOP": "stop", "MAX_TOKENS": "length"}
_NO_PARAMETERS = {"type": "object", "properties": {}}


# --- answers -----------------------------------------------------------------------------------------


def chat_reply(chunks: Sequence[Body]) -> Reply:
    return Reply([*(sse(_chat_event(chunk), done=False) for chunk in chunks), b"data: [DONE]\n\n"])


def ollama_reply(chunks: Sequence[Body]) -> Reply:
    return Reply([lines(_ollama_event(chunk)) for chunk in chunks])


def _parts(chunk: Body) -> list[Body]:
    found: list[Body] = chunk["candidates"][0].get("content", {}).get("parts", [])
    return found


def _joined(parts: list[Body], *, thought: bool) -> str:
    return "".join(part["text"] for part in parts if "text" in part and part.get("thought", False) is thought)


def _finish(chunk: Body) -> str | None:
    reason = chunk["candidates"][0].get("finishReason")
    return _FINISH.get(reason, reason) if reason else None


def _chat_event(chunk: Body) -> Body:
    if "error" in chunk:
        return chunk
    parts, counts = _parts(chunk), chunk.get("usageMetadata", {})
    calls = [
        {
            "index": index,
            **({"id": call["id"]} if "id" in call else {}),
            "function": {"name": call["name"], "arguments": orjson.dumps(call.get("args", {})).decode()},
        }
        for index, call in enumerate(part["functionCall"] for part in parts if "functionCall" in part)
    ]
    delta = {
        "content": _joined(parts, thought=False),
        "reasoning_content": _joined(parts, thought=True),
        "tool_calls": calls,
    }
    usage = {
        "prompt_tokens": counts.get("promptTokenCount", 1),
        "completion_tokens": counts.get("candidatesTokenCount", 1),
    }
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": _finish(chunk)}], "usage": usage}


def _ollama_event(chunk: Body) -> Body:
    if "error" in chunk:
        return chunk
    parts, finish = _parts(chunk), _finish(chunk)
    calls = [
        {"function": {"name": call["name"], "arguments": call.get("args", {})}}
        for call in (part["functionCall"] for part in parts if "functionCall" in part)
    ]
    message = {
        "content": _joined(parts, thought=False),
        "thinking": _joined(parts, thought=True),
        "tool_calls": calls,
    }
    ended = {"done_reason": finish, "prompt_eval_count": 1, "eval_count": 1} if finish else {}
    return {"message": message, "done": finish is not None, **ended}


# --- requests ----------------------------------------------------------------------------------------


def gemini_from_chat(body: Body) -> Body:
    generation: Body = {"seed": body["seed"]} if "seed" in body else {}
    if "response_format" in body:
        generation["responseMimeType"] = "application/json"
        generation["responseJsonSchema"] = body["response_format"]["json_schema"]["schema"]
    return _request(body, list(_contents(body["messages"])), generation)


def gemini_from_ollama(body: Body) -> Body:
    options = body["options"]
    generation: Body = {"seed": options["seed"]} if "seed" in options else {}
    if "format" in body:
        generation["responseMimeType"] = "application/json"
        generation["responseJsonSchema"] = body["format"]
    return _request(body, list(_contents(body["messages"])), generation)


def _request(body: Body, contents: list[Body], generation: Body) -> Body:
    request: Body = {"contents": contents}
    if "tools" in body:
        request["tools"] = [{"functionDeclarations": [_declaration(each) for each in body["tools"]]}]
    return {**request, "generationConfig": generation} if generation else request


def _declaration(tool: Body) -> Body:
    function = dict(tool["function"])
    schema = function.pop("parameters")
    return function if schema == _NO_PARAMETERS else {**function, "parametersJsonSchema": schema}


def _contents(messages: list[Body]) -> Iterator[Body]:
    names: dict[str, str] = {}
    for message in messages:
        calls = message.get("tool_calls", [])
        names |= {call["id"]: call["function"]["name"] for call in calls if "id" in call}
        if message["role"] == "tool":
            call_id = message.get("tool_call_id")
            response = {
                "name": message.get("tool_name") or names[call_id],
                "response": _parsed(message["content"]),
            }
            yield {"role": "user", "parts": [{"functionResponse": _with_id(response, call_id)}]}
            continue
        parts = [*_said(message.get("content")), *map(_call, calls)]
        yield {"role": "model" if message["role"] == "assistant" else "user", "parts": parts}


def _said(content: Any) -> list[Body]:
    if not content:
        return []
    return [{"text": content}] if isinstance(content, str) else [_media(part) for part in content]


def _media(part: Body) -> Body:
    if part["type"] == "text":
        return {"text": part["text"]}
    address = part["image_url"]["url"]
    return {"fileData": {"mimeType": mimetypes.guess_type(address)[0], "fileUri": address}}


def _call(call: Body) -> Body:
    function = call["function"]
    return {
        "functionCall": _with_id(
            {"name": function["name"], "args": _parsed(function["arguments"])}, call.get("id")
        )
    }


def _with_id(fields: Body, call_id: str | None) -> Body:
    return {"id": call_id, **fields} if call_id else fields


def _parsed(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str) else value
