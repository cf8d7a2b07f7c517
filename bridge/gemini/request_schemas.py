"""The schemas of one request: they share one size limit, and a cache holds prepared tool schemas.

Expanded references can grow exponentially: two kilobytes of schema can become hundreds of megabytes. So the
limit counts expanded bytes over all tools of a request, and a request above the limit is rejected.
"""

from __future__ import annotations

import threading
from typing import Any

import orjson

from bridge.errors import InvalidRequest
from bridge.gemini.tool_schema import PreparedSchema, SchemaLimits, prepare_object_schema, prepare_schema
from bridge.gemini.types import JsonObject

#: Ten times as many as agents with many MCP servers declare, and more than a model can handle.
MAX_TOOLS = 4096

#: Bytes that the cache may take: enough for a few hundred tools.
MAX_CACHED_BYTES = 32 << 20
#: A larger schema is not cached, since it would evict all others.
LARGEST_CACHED = MAX_CACHED_BYTES // 16
#: In memory, a value takes at most this many times the bytes of its JSON.
MEMORY_FACTOR = 24


class _SchemaCache:
    """Prepared schemas by the bytes of the declared schema. The oldest entry is evicted first."""

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
        except orjson.JSONEncodeError:  # too deep to send; the upstream layer reports the error
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
            written = bytes(memoryview(written))  # orjson's buffer is much larger than the text
            self._schemas[written], self._sizes[written] = prepared, size
            self._size += size


_CACHE = _SchemaCache()


class RequestSchemas:
    """Prepares the schemas of one request, within one limit for all of them."""

    def __init__(self) -> None:
        self.losses: list[str] = []
        self._tools = 0
        self._remaining = SchemaLimits()
        self._by_tool: dict[str, tuple[JsonObject, JsonObject]] = {}  #: the declared and the prepared schema

    def count_tools(self, number: int, param: str) -> None:
        """Add to the number of declared tools, and reject too many."""
        self._tools += number
        if self._tools > MAX_TOOLS:
            raise InvalidRequest(f"{param}: a request may declare {MAX_TOOLS} tools at most", param=param)

    def tool_schema(self, name: str, schema: JsonObject, param: str) -> JsonObject:
        """The prepared schema of a tool's arguments. A history may declare the same tool in each turn; the
        limit counts it once."""
        declared, prepared = self._by_tool.get(name, (None, schema))
        if declared != schema:
            prepared = self._charge(self._prepare(schema, param))
            self._by_tool[name] = schema, prepared
        return prepared

    def _prepare(self, schema: JsonObject, param: str) -> PreparedSchema:
        try:
            written = orjson.dumps(schema)
        except orjson.JSONEncodeError:  # too deep; the walker raises a clearer error
            return prepare_object_schema(schema, param, self._remaining)
        known = _CACHE.find(written)
        if (
            known is None
            or known.nodes > self._remaining.nodes
            or known.expanded_bytes > self._remaining.expanded_bytes
        ):
            known = prepare_object_schema(schema, param, self._remaining)  # raises if it exceeds a limit
            _CACHE.keep(written, known)
        return known

    def answer_format(self, schema: JsonObject, param: str) -> dict[str, Any]:
        """The fields of `generationConfig` that request an answer of this schema."""
        prepared = self._charge(prepare_schema(schema, param, self._remaining))
        return {"responseMimeType": "application/json", "responseJsonSchema": prepared}

    def _charge(self, prepared: PreparedSchema) -> JsonObject:
        self._remaining = SchemaLimits(
            self._remaining.nodes - prepared.nodes, self._remaining.expanded_bytes - prepared.expanded_bytes
        )
        if prepared.cut:
            self.losses.append("tools.references_cut")
        return prepared.schema
