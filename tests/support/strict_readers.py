"""Clients that trust nothing: each reads a whole stream and checks the vendor's promises about its events.

The promises beyond the form of a single event: numbers without a gap, one id for one thing, deltas that add
up to the whole, and an ending that repeats what was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from bridge.protocols.base import Event
from bridge.protocols.openai_chunks import DONE

Json = dict[str, Any]

# --- Responses ---------------------------------------------------------------------------------------

#: For each event that ends a text: the event of its deltas, and the field with the whole text.
_WHOLE: Mapping[str, tuple[str, str]] = {
    f"response.{kind}.done": (f"response.{kind}.delta", field)
    for kind, field in (
        ("output_text", "text"),
        ("refusal", "refusal"),
        ("reasoning_summary_text", "text"),
        ("function_call_arguments", "arguments"),
        ("custom_tool_call_input", "input"),
        ("code_interpreter_call_code", "code"),
    )
}
_TERMINAL = ("response.completed", "response.failed", "response.incomplete", "response.done")
_STARTED, _ENDED = "in_progress", ("completed", "incomplete", "failed", "requires_action")


class ResponsesReader:
    def __init__(self) -> None:
        self.output: list[Json] = []  #: the finished items
        self.response: Json = {}  #: of the last event
        self._item: Json | None = None
        self._deltas: dict[str, list[str]] = {}
        self._logprobs: list[Any] = []
        self._part: Json | None = None
        self._wholes: list[str] = []
        self._annotations: list[Json] = []

    def read(self, events: Sequence[Event]) -> None:
        for number, event in enumerate(events):
            assert (event.data["type"], event.data["sequence_number"]) == (event.type, number)
            if "response" in event.data:
                self._see_response(event.type, event.data["response"])
            else:
                assert event.data["output_index"] == len(self.output)
                self._see_item_event(event.type, event.data)
        self._check_the_end()

    def _see_response(self, kind: str, response: Json) -> None:
        assert response["id"] == self.response.get("id", response["id"])
        assert (response["usage"] is None) is (kind not in _TERMINAL)
        assert (response["status"] in ("queued", _STARTED)) is (kind not in _TERMINAL)
        self.response = response

    def _see_item_event(self, kind: str, data: Json) -> None:
        if kind == "response.output_item.added":
            assert self._item is None
            self._item = data["item"]
            assert self._item.get("status", _STARTED) == _STARTED
            assert self._item["id"] not in [item["id"] for item in self.output]
        elif kind == "response.output_item.done":
            self._finish(data["item"])
        else:
            assert self._item is not None
            assert data["item_id"] == self._item["id"]
            assert data.get("content_index", 0) == data.get("summary_index", 0) == 0
            self._see_content(kind, data)

    def _see_content(self, kind: str, data: Json) -> None:
        if kind.endswith(".delta"):
            self._deltas.setdefault(kind, []).append(data["delta"])
            self._logprobs += data.get("logprobs", [])
        elif kind in _WHOLE:
            delta, field = _WHOLE[kind]
            assert "".join(self._deltas.pop(delta)) == data[field]
            assert data.get("logprobs", []) == self._logprobs
            self._wholes.append(data[field])
        elif kind == "response.output_text.annotation.added":
            assert data["annotation_index"] == len(self._annotations)
            self._annotations.append(data["annotation"])
        elif kind.endswith("_part.added"):
            assert self._part is None
            self._part = data["part"]
        elif kind.endswith("_part.done"):
            assert self._part is not None
            assert data["part"].keys() == self._part.keys()
            assert data["part"].get("annotations", []) == self._annotations
            assert len(data["part"].get("logprobs", [])) == len(self._logprobs)
            self._part, self._annotations, self._logprobs = None, [], []

    def _finish(self, item: Json) -> None:
        assert self._item is not None
        assert self._part is None
        assert self._deltas == {}
        assert all(item[name] == self._item[name] for name in ("id", "type"))
        assert item.keys() - self._item.keys() <= {"encrypted_content"}
        assert self._item.keys() <= item.keys()
        assert item.get("status", "completed") in _ENDED
        assert self._wholes == _texts(item)
        self.output.append(item)
        self._item, self._wholes = None, []

    def _check_the_end(self) -> None:
        assert self.response["output"] == self.output
        status = self.response["status"]
        assert (self.response["error"] is not None) is (status == "failed")
        assert (self.response["incomplete_details"] is not None) is (status == "incomplete")
        assert (self.response["completed_at"] is None) is (status in ("failed", "incomplete"))
        if status != "failed":
            assert self._item is None
            messages = [item for item in self.output if item["type"] == "message"]
            cut = [item["id"] for item in messages if item["status"] == "incomplete"]
            assert cut in ([], [item["id"] for item in messages[-1:]])
            assert status == "incomplete" or not cut


def _texts(item: Json) -> list[str]:
    """The texts that were streamed of an item."""
    if item["type"] in ("message", "reasoning"):
        parts = item["content"] if item["type"] == "message" else item["summary"]
        return [part.get("text", part.get("refusal")) for part in parts]
    fields = {"function_call": "arguments", "custom_tool_call": "input", "code_interpreter_call": "code"}
    return [item[fields[item["type"]]]] if item["type"] in fields else []


# --- Chat Completions --------------------------------------------------------------------------------


class ChatReader:
    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # the calls of each choice that is not finished
        self._finished: set[int] = set()
        self._call_ids: set[str] = set()
        self._usage_seen = False

    def read(self, events: Sequence[Event]) -> None:
        *chunks, end = events
        assert end is DONE
        assert DONE not in chunks
        failed = bool(chunks) and "error" in chunks[-1].data
        if failed:
            chunks.pop()
        heads = {
            orjson.dumps([chunk.data[name] for name in ("id", "object", "model", "created")])
            for chunk in chunks
        }
        assert len(heads) <= 1
        for chunk in chunks:
            self._see(chunk.data)
        assert failed or (self._usage_seen and self._finished and not self._open)

    def _see(self, chunk: Json) -> None:
        assert not self._usage_seen
        if not chunk["choices"]:
            assert chunk["usage"]
            assert not self._open
            self._usage_seen = True
            return
        (choice,) = chunk["choices"]
        assert chunk["usage"] is None
        assert choice["index"] not in self._finished
        assert ("role" in choice["delta"]) is (choice["index"] not in self._open)
        calls = self._open.setdefault(choice["index"], 0)
        for call in choice["delta"].get("tool_calls", []):
            assert call["index"] == calls
            assert call["id"] not in self._call_ids
            if call["type"] == "function":
                orjson.loads(call["function"]["arguments"])
            self._call_ids.add(call["id"])
            self._open[choice["index"]] = calls = calls + 1
        if (reason := choice["finish_reason"]) is not None:
            assert (reason == "tool_calls") is (calls > 0)
            assert choice["delta"] == {}
            self._finished.add(choice["index"])
            del self._open[choice["index"]]


# --- Messages ----------------------------------------------------------------------------------------

_DELTAS: Mapping[str, tuple[str, ...]] = {
    "text": ("text_delta", "citations_delta"),
    "thinking": ("thinking_delta", "signature_delta"),
    "tool_use": ("input_json_delta",),
    "server_tool_use": ("input_json_delta",),
}


class MessagesReader:
    def __init__(self) -> None:
        self._blocks: list[Json] = []
        self._open: Json | None = None
        self._pieces: dict[str, list[str]] = {}
        self._kinds: list[str] = []

    def read(self, events: Sequence[Event]) -> None:
        seen: dict[str, Callable[[Json], None]] = {
            "content_block_start": self._start,
            "content_block_delta": self._add,
            "content_block_stop": self._stop,
        }
        for event in events:
            assert event.data["type"] == event.type
            if event.type in seen:
                seen[event.type](event.data)
            else:
                self._kinds.append(event.type)
        self._check_the_end(events)

    def _start(self, data: Json) -> None:
        assert self._open is None
        assert data["index"] == len(self._blocks)
        self._open = data["content_block"]
        assert not any(self._open.get(name) for name in ("text", "thinking", "signature", "input"))
        if "tool_use_id" in self._open:
            calls = [block["id"] for block in self._blocks if block["type"] == "server_tool_use"]
            assert self._open["tool_use_id"] in calls
        self._blocks.append(self._open)

    def _add(self, data: Json) -> None:
        assert self._open is not None
        assert data["index"] == len(self._blocks) - 1
        delta = data["delta"]
        assert delta["type"] in _DELTAS[self._open["type"]]
        assert "signature_delta" not in self._pieces
        self._pieces.setdefault(delta["type"], []).append(
            next(value for key, value in delta.items() if key != "type")
        )

    def _stop(self, data: Json) -> None:
        assert self._open is not None
        assert data["index"] == len(self._blocks) - 1
        if "input" in self._open:
            orjson.loads("".join(self._pieces["input_json_delta"]))
        assert self._open["type"] != "text" or self._pieces.get("text_delta")
        self._open, self._pieces = None, {}

    def _check_the_end(self, events: Sequence[Event]) -> None:
        if self._kinds[-1] == "error":
            assert self._kinds in (["error"], ["message_start", "error"])
            return
        assert self._open is None
        assert self._kinds == ["message_start", "message_delta", "message_stop"]
        started, ended = events[0].data["message"], events[-2].data
        assert ended["usage"]["output_tokens"] >= started["usage"]["output_tokens"]
        called = any(block["type"] == "tool_use" for block in self._blocks)
        assert (ended["delta"]["stop_reason"] == "tool_use") is called
        ids = [block["id"] for block in self._blocks if "id" in block]
        assert len(set(ids)) == len(ids)


READERS: Mapping[str, Callable[[], ResponsesReader | ChatReader | MessagesReader]] = {
    "openai_responses": ResponsesReader,
    "openai_chat": ChatReader,
    "anthropic_messages": MessagesReader,
}
