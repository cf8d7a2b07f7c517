"""The schemas of one request. They have one budget together, and what was made of a tool's is remembered.

A reference may name what holds two references, and so on: two kilobytes can stand for hundreds of megabytes.
So what is written out is counted over all tools of a request, and a request that takes too much is refused.
"""

from __future__ import annotations

import threading
from typing import Any

import orjson

from bridge.errors import InvalidRequest
from bridge.gemini.tool_schema import PreparedSchema, SchemaLimits, prepare_object_schema, prepare_schema
from bridge.gemini.types import JsonObject

#: Ten times what agents with many MCP servers declare, and more than any model can choose from.
MAX_TOOLS = 4096

#: Bytes that remembered schemas take: a few hundred tools.
MAX_CACHED_BYTES = 32 << 20
#: One that takes more is not remembered, as it would push out all others.
LARGEST_CACHED = MAX_CACHED_BYTES // 16
#: In memory, a value takes at most so many times the bytes of its JSON.
MEMORY_FACTOR = 24


class _SchemaCache:
    """What was made of schemas, by their bytes; the oldest goes first."""

    def __init__(self) -> None:
        self._schemas: dict[bytes, PreparedSchema] = {}
        self._sizes: dict[bytes, int] = {}
        self._size = 0
        self._lock = threading.Lock()

    def find(self, written: bytes) -> PreparedSchema | None:
        return self._schemas.get(written)

    def keep(self, written: bytes, prepared: PreparedSchema) -> None:
        try:
            size = len(written) + MEMORY_FACTOR * len(orjson.dumps(prepared.schema))
        except orjson.JSONEncodeError:  # written out, it is too deep to be sent, which whoever sends it tells
            return
        if size > LARGEST_CACHED:
            return
        with self._lock:
            if written in self._schemas:
                return
            while self._size + size > MAX_CACHED_BYTES:
                oldest = next(iter(self._schemas))
                del self._schemas[oldest]
                self._size -= self._sizes.pop(oldest)
            written = bytes(memoryview(written))  # the writer's own has room for much more
            self._schemas[written], self._sizes[written] = prepared, size
            self._size += size


_CACHE = _SchemaCache()


class RequestSchemas:
    def __init__(self) -> None:
        self.losses: list[str] = []
        self._tools = 0
        self._remaining = SchemaLimits()
        self._by_tool: dict[str, tuple[JsonObject, JsonObject]] = {}  #: as declared, and as Gemini takes it

    def count_tools(self, number: int, param: str) -> None:
        """So many tools more."""
        self._tools += number
        if self._tools > MAX_TOOLS:
            raise InvalidRequest(f"{param}: a request may declare {MAX_TOOLS} tools at most", param=param)

    def tool_schema(self, name: str, schema: JsonObject, param: str) -> JsonObject:
        """The schema of a tool's arguments. A history may declare the same tool in each turn: it counts
        once."""
        declared, prepared = self._by_tool.get(name, (None, schema))
        if declared != schema:
            prepared = self._charge(self._prepare(schema, param))
            self._by_tool[name] = schema, prepared
        return prepared

    def _prepare(self, schema: JsonObject, param: str) -> PreparedSchema:
        try:
            written = orjson.dumps(schema)
        except orjson.JSONEncodeError:  # too deep, which the walk tells in better words
            return prepare_object_schema(schema, param, self._remaining)
        known = _CACHE.find(written)
        if (
            known is None
            or known.nodes > self._remaining.nodes
            or known.expanded_bytes > self._remaining.expanded_bytes
        ):
            known = prepare_object_schema(schema, param, self._remaining)  # which says what is too much
            _CACHE.keep(written, known)
        return known

    def answer_format(self, schema: JsonObject, param: str) -> dict[str, Any]:
        """The part of `generationConfig` that asks for an answer of this schema."""
        prepared = self._charge(prepare_schema(schema, param, self._remaining))
        return {"responseMimeType": "application/json", "responseJsonSchema": prepared}

    def _charge(self, prepared: PreparedSchema) -> JsonObject:
        self._remaining = SchemaLimits(
            self._remaining.nodes - prepared.nodes, self._remaining.expanded_bytes - prepared.expanded_bytes
        )
        if prepared.cut:
            self.losses.append("tools.references_cut")
        return prepared.schema
