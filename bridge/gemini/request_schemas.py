"""The schemas of one request. They have one budget together, and what was made of a tool's is remembered.

A reference may name what holds two references, and so on: two kilobytes can stand for hundreds of megabytes.
So what is written out is counted over all tools of a request, and a request that takes too much is refused.
"""

from __future__ import annotations

import threading
from typing import Any

import orjson

from bridge.errors import InvalidRequest
from bridge.gemini.tool_schema import PreparedSchema, SchemaLimits, object_schema, plain_schema
from bridge.gemini.types import JsonObject

#: Ten times what agents with many MCP servers declare, and more than any model can choose from.
MOST_TOOLS = 4096

#: Bytes that remembered schemas take: a few hundred tools.
MOST_REMEMBERED = 32 << 20
#: One that takes more is not remembered, as it would push out all others.
LARGEST_REMEMBERED = MOST_REMEMBERED // 16
#: In memory, a value takes at most so many times the bytes of its JSON.
IN_MEMORY = 24


class _Memory:
    """What was made of schemas, by their bytes; the oldest goes first."""

    def __init__(self) -> None:
        self._known: dict[bytes, PreparedSchema] = {}
        self._sizes: dict[bytes, int] = {}
        self._size = 0
        self._lock = threading.Lock()

    def find(self, written: bytes) -> PreparedSchema | None:
        return self._known.get(written)

    def keep(self, written: bytes, prepared: PreparedSchema) -> None:
        try:
            size = len(written) + IN_MEMORY * len(orjson.dumps(prepared.schema))
        except orjson.JSONEncodeError:  # written out, it is too deep to be sent, which whoever sends it tells
            return
        if size > LARGEST_REMEMBERED:
            return
        with self._lock:
            if written in self._known:
                return
            while self._size + size > MOST_REMEMBERED:
                oldest = next(iter(self._known))
                del self._known[oldest]
                self._size -= self._sizes.pop(oldest)
            written = bytes(memoryview(written))  # the writer's own has room for much more
            self._known[written], self._sizes[written] = prepared, size
            self._size += size


_MEMORY = _Memory()


class Schemas:
    def __init__(self) -> None:
        self.losses: list[str] = []
        self._tools = 0
        self._left = SchemaLimits()
        self._own: dict[str, tuple[JsonObject, JsonObject]] = {}  #: as declared, and as Gemini takes it

    def declared(self, number: int, param: str) -> None:
        """So many tools more."""
        self._tools += number
        if self._tools > MOST_TOOLS:
            raise InvalidRequest(f"{param}: a request may declare {MOST_TOOLS} tools at most", param=param)

    def tool(self, name: str, schema: JsonObject, param: str) -> JsonObject:
        """The schema of a tool's arguments. A history may declare the same tool in each turn: it counts
        once."""
        declared, prepared = self._own.get(name, (None, schema))
        if declared != schema:
            prepared = self._charged(self._prepared(schema, param))
            self._own[name] = schema, prepared
        return prepared

    def _prepared(self, schema: JsonObject, param: str) -> PreparedSchema:
        try:
            written = orjson.dumps(schema)
        except orjson.JSONEncodeError:  # too deep, which the walk tells in better words
            return object_schema(schema, param, self._left)
        known = _MEMORY.find(written)
        if known is None or known.nodes > self._left.nodes or known.referred > self._left.referred:
            known = object_schema(schema, param, self._left)  # which says what is too much
            _MEMORY.keep(written, known)
        return known

    def answer(self, schema: JsonObject, param: str) -> dict[str, Any]:
        """The part of `generationConfig` that asks for an answer of this schema."""
        prepared = self._charged(plain_schema(schema, param, self._left))
        return {"responseMimeType": "application/json", "responseJsonSchema": prepared}

    def _charged(self, prepared: PreparedSchema) -> JsonObject:
        self._left = SchemaLimits(self._left.nodes - prepared.nodes, self._left.referred - prepared.referred)
        if prepared.cut:
            self.losses.append("tools.references_cut")
        return prepared.schema
