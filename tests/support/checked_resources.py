"""Answers of OpenAI's endpoints besides the models' own: what is stored, counted, compacted and embedded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import requests
from checked_answers import Answer, of_stream
from checked_requests import PROMPT, RESPONSES

from bridge.protocols.openai_responses.dialects import DIALECTS

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAAB"
    "JRU5ErkJggg=="
)
#: Input items in short and in complete form, of every kind that can be stored.
ITEMS: tuple[dict[str, Any], ...] = (
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": PROMPT},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look outside."}]},
    {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "fine"},
    {"type": "custom_tool_call", "call_id": "call_2", "name": "note", "input": "sky"},
    {"type": "custom_tool_call_output", "call_id": "call_2", "output": "noted"},
    {"role": "assistant", "content": "It is fine."},
)
#: Models whose answers have items of several kinds.
MODELS = ("demo", "demo-tool", "demo-grounding")
OPENAI = {"x-bridge-dialect": "openai"}


class Resources:
    """Calls the bridge, and gives the answers to be checked."""

    def __init__(self, address: str) -> None:
        self._root = f"{address}/v1"

    def call(self, method: str, path: str, kind: str, **body: Any) -> Answer:
        got = requests.request(method, self._root + path, json=body or None, headers=OPENAI, timeout=60)
        assert got.status_code == 200, f"{method} {path}: {got.text}"
        return Answer(f"{method} {path}", "openai", kind, got.json())

    def events(self, method: str, path: str, dialect: str, **body: Any) -> Iterator[Answer]:
        headers = {"x-bridge-dialect": dialect}
        got = requests.request(method, self._root + path, json=body or None, headers=headers, timeout=60)
        assert got.status_code == 200, f"{method} {path}: {got.text}"
        return of_stream(got.content, f"{method} {path}", dialect, "responses")


def of_resources(address: str) -> Iterator[Answer]:
    resources = Resources(address)
    yield from _of_one_call(resources)
    yield from _of_stored(resources)
    yield from _of_background_streams(resources)
    yield from _of_conversations(resources)


def _of_one_call(resources: Resources) -> Iterator[Answer]:
    for given in ("Hello", ["Hello", "Goodbye"]):
        body = {"model": "text-embedding-3-small", "input": given}
        yield resources.call("POST", "/embeddings", "embeddings body", **body)
    for counted in ({"input": PROMPT}, {"model": "demo", "input": list(ITEMS)}):
        yield resources.call("POST", "/responses/input_tokens", "responses count", **counted)
    for given in (PROMPT, list(ITEMS)):
        yield resources.call("POST", "/responses/compact", "responses compacted", model="demo", input=given)


def _of_stored(resources: Resources) -> Iterator[Answer]:
    """Answers of several kinds, made in the fore- and in the background."""
    for model in MODELS:
        for given in (PROMPT, list(ITEMS)):
            for background in (False, True):
                body = {**RESPONSES, "model": model, "input": given, "background": background}
                made = resources.call("POST", "/responses", "responses body", **body)
                path = f"/responses/{made.value['id']}"
                yield made
                yield resources.call("GET", path, "responses body")
                yield resources.call("GET", f"{path}/input_items", "responses items")
                if background:
                    yield resources.call("POST", f"{path}/cancel", "responses body")


def _of_background_streams(resources: Resources) -> Iterator[Answer]:
    """Each while it is made, and again from the store."""
    for dialect in DIALECTS:
        for model in MODELS:
            body = {**RESPONSES, "model": model, "background": True, "stream": True}
            live = list(resources.events("POST", "/responses", dialect, **body))
            path = f"/responses/{live[0].value['response']['id']}"
            yield from live
            yield from resources.events("GET", f"{path}?stream=true", dialect)


def _of_conversations(resources: Resources) -> Iterator[Answer]:
    made = resources.call("POST", "/conversations", "conversation", metadata={"topic": "sky"})
    path = f"/conversations/{made.value['id']}"
    yield made
    yield resources.call("POST", path, "conversation", metadata={"topic": "weather"})
    yield resources.call("GET", f"{path}/items", "conversation items")
    yield resources.call("POST", f"{path}/items", "conversation items", items=list(ITEMS))
    for model in MODELS:
        body = {**RESPONSES, "model": model, "conversation": made.value["id"]}
        yield resources.call("POST", "/responses", "responses body", **body)
    listed = resources.call("GET", f"{path}/items?limit=100", "conversation items")
    yield listed
    for item in listed.value["data"]:
        yield resources.call("GET", f"{path}/items/{item['id']}", "conversation item")
    last = listed.value["last_id"]
    yield resources.call("DELETE", f"{path}/items/{last}", "conversation")
    yield resources.call("DELETE", path, "conversation deleted")
