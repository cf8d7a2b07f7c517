"""The request cache: a request that was answered before gets the same answer without asking the upstream.

It works between the retries and the upstream. There the request is final, so all protocols share entries, and
a kept answer passes the same adapters, guards and event machines as a new one: it gets new ids and events.
Nothing is cached unless a key, a model's row or a request switches the cache on.
"""

from __future__ import annotations

import math
import re
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import NamedTuple

import orjson

from bridge import __version__
from bridge.gemini.request_digest import is_repeatable, json_digest, request_digest
from bridge.gemini.types import Chunk, GenerateRequest, JsonObject, TextChunk
from bridge.gemini.wire import chunk_from_json, chunk_to_json
from bridge.observe.record import CACHE_HIT, Record
from bridge.protocols.base import Caller
from bridge.protocols.json_reading import invalid_field, quoted
from bridge.settings import UpstreamRow
from bridge.settings.sections import CacheSettings
from bridge.state.errors import StorageError
from bridge.state.request_cache_store import RequestCacheStore
from bridge.upstream.base import TICK, ChunkStream, Tick, Upstream, wait_for

HEADER = "x-bridge-cache"
ON, OFF, REFRESH = "on", "off", "refresh"
MISS = "miss"
STORE_FAILED = "cache.store_failed"  #: the note for a store that could not be used

LARGEST_ANSWER = 1 << 20  #: bytes of an answer that is kept
MOST_CHUNKS = 20_000
LONGEST_WAIT = 60.0  #: seconds for which a request waits for the answer to an equal request
_MAX_AGE = re.compile(r"max-age=(\d{1,9})")


class CacheUse(NamedTuple):
    """How one request uses the cache."""

    reads: bool
    max_age: float  #: seconds

    @property
    def without_entry(self) -> str:
        """What the record says until an entry is found."""
        return MISS if self.reads else REFRESH


class CacheWish(NamedTuple):
    """What the headers of a request say about the cache."""

    switch: str  #: on, off, refresh, or empty if the request leaves it to the rules
    control: str  #: the value of Cache-Control

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> CacheWish:
        switch = headers.get(HEADER, "")
        if switch not in ("", ON, OFF, REFRESH):
            raise invalid_field(f"must be {ON}, {OFF} or {REFRESH}, not {quoted(switch)}", HEADER)
        return cls(switch, headers.get("Cache-Control", "").lower())

    def use(self, rules: Sequence[str]) -> CacheUse | None:
        """None if the request does not use the cache. One rule "off" of the key or of the model wins over all
        others; after that the request's own header decides."""
        if OFF in (self.switch, *rules) or not (self.switch or ON in rules):
            return None
        if self.switch:
            return CacheUse(self.switch == ON, math.inf)
        if "no-store" in self.control:
            return None
        named = _MAX_AGE.search(self.control)
        return CacheUse("no-cache" not in self.control, float(named[1]) if named else math.inf)


class RequestCache:
    """The cache of one process."""

    def __init__(self, store: RequestCacheStore, settings: CacheSettings) -> None:
        self._store = store
        self._settings = settings
        self._lock = threading.Lock()
        self._running: dict[tuple[str, bytes], threading.Event] = {}

    def in_front_of(
        self,
        upstream: Upstream,
        row: UpstreamRow,
        of_model: str,
        asked: GenerateRequest | None,
        caller: Caller,
        record: Record,
    ) -> Upstream:
        """The upstream, behind the cache if this request may use it. `of_model` is the rule of the model;
        `asked` is the request before it was adapted."""
        if not (of_model == ON or caller.key_cache == ON or HEADER in caller.headers):
            return upstream
        use = CacheWish.of(caller.headers).use((caller.key_cache, of_model))
        if use is None or not (asked is None or is_repeatable(asked)):
            record.cache = OFF
            return upstream
        scope = "" if self._settings.scope == "all" else caller.owner
        server = " ".join((upstream.home, *row.server_settings))
        return CachedUpstream(self, upstream, server, scope, record, use)

    # --- entries -------------------------------------------------------------------------------------

    def find(self, key: tuple[str, bytes], use: CacheUse, record: Record) -> JsonObject | None:
        """The kept value. A store that fails is an empty store."""
        if not use.reads:
            return None
        try:
            entry = self._store.find(*key)
        except StorageError:
            record.note([STORE_FAILED])
            return None
        if entry is None or entry.age > use.max_age:
            return None
        record.cache, record.cache_age = CACHE_HIT, entry.age
        value: JsonObject = orjson.loads(zlib.decompress(entry.data))
        return value

    def keep(self, key: tuple[str, bytes], value: JsonObject, record: Record) -> None:
        data = orjson.dumps(value)
        if len(data) > LARGEST_ANSWER:
            return
        try:
            self._store.keep(*key, zlib.compress(data, 1), self._settings.lifetime)
        except StorageError:
            record.note([STORE_FAILED])

    # --- equal requests at the same time -------------------------------------------------------------

    def found_or_awaited(
        self, key: tuple[str, bytes], mine: threading.Event, use: CacheUse, record: Record
    ) -> Generator[Tick, None, JsonObject | None]:
        """The kept value. An equal request that is running is waited for once: if its answer was not kept,
        the next one to wait for might have no better answer. The caller must call `leave`, which also ends
        the wait."""
        running = self.join(key, mine)
        found = self.find(key, use, record)
        if found is None and running is not mine and use.reads:
            until = time.monotonic() + LONGEST_WAIT
            while not (mine.is_set() or running.wait(TICK)) and time.monotonic() < until:
                yield ()
            found = self.find(key, use, record)
        return found

    def join(self, key: tuple[str, bytes], mine: threading.Event) -> threading.Event:
        """The event that is set when the running request with this key ends. It is `mine` if there was none:
        then the caller must call `leave`."""
        with self._lock:
            return self._running.setdefault(key, mine)

    def leave(self, key: tuple[str, bytes], mine: threading.Event) -> None:
        with self._lock:
            if self._running.get(key) is mine:
                del self._running[key]
        mine.set()


class CachedUpstream(Upstream):
    """An upstream for one request, which asks the cache first."""

    def __init__(
        self,
        cache: RequestCache,
        upstream: Upstream,
        server: str,
        scope: str,
        record: Record,
        use: CacheUse,
    ) -> None:
        """`server`: rows with equal servers share entries."""
        self.home = upstream.home
        self.estimates_counts = upstream.estimates_counts
        self._cache = cache
        self._upstream = upstream
        self._server = server
        self._scope = scope
        self._record = record
        self._use = use
        self._tried: set[tuple[str, bytes]] = set()  #: a further attempt wants another answer

    def stream(self, request: GenerateRequest) -> ChunkStream:
        if not is_repeatable(request):
            self._record.cache = OFF
            return self._upstream.stream(request)
        key = self._key("stream", request_digest(self._server, request))
        use = self._use._replace(reads=False) if key in self._tried else self._use
        self._tried.add(key)
        self._record.cache = self._use.without_entry
        return CachedStream(self._cache, key, use, self._record, lambda: self._upstream.stream(request))

    def count_tokens(self, request: GenerateRequest) -> int:
        key = self._key("count", request_digest(self._server, request))
        return int(self._unary(key, lambda: {"tokens": self._upstream.count_tokens(request)})["tokens"])

    def unary_call(self, model: str, method: str, body: JsonObject) -> JsonObject:
        key = self._key(method, json_digest([self._server, model, body]))
        return self._unary(key, lambda: self._upstream.unary_call(model, method, body))

    def models(self) -> Sequence[JsonObject]:
        return self._upstream.models()

    def losses_of(self, request: GenerateRequest) -> Sequence[str]:
        return self._upstream.losses_of(request)

    def _unary(self, key: tuple[str, bytes], ask: Callable[[], JsonObject]) -> JsonObject:
        self._record.cache = self._use.without_entry
        ended = threading.Event()
        try:
            found = wait_for(self._cache.found_or_awaited(key, ended, self._use, self._record))
            if found is None:
                found = ask()
                self._cache.keep(key, found, self._record)
            return found
        finally:
            self._cache.leave(key, ended)

    def _key(self, method: str, digest: bytes) -> tuple[str, bytes]:
        """A new version of the bridge may send other requests and keep other values."""
        return self._scope, json_digest([__version__, method, digest.hex()])


class CachedStream(ChunkStream):
    """An answer from the cache, or an answer of the upstream that is kept at its end."""

    def __init__(
        self,
        cache: RequestCache,
        key: tuple[str, bytes],
        use: CacheUse,
        record: Record,
        ask: Callable[[], ChunkStream],
    ) -> None:
        self._cache = cache
        self._key = key
        self._use = use
        self._record = record
        self._ask = ask
        self._asked: ChunkStream | None = None
        self._ended = threading.Event()  #: set when this stream no longer works on the request
        self._closed = False
        self._waited = 0.0

    @property
    def waited(self) -> float:  # type: ignore[override]
        return self._waited + (self._asked.waited if self._asked is not None else 0.0)

    def close(self) -> None:
        self._closed = True
        self._cache.leave(self._key, self._ended)
        if self._asked is not None:
            self._asked.close()

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        found = yield from self._found()
        if found is not None:
            yield [chunk_from_json(chunk) for chunk in found["chunks"]]
        elif not self._closed:
            yield from self._from_upstream()
        self._cache.leave(self._key, self._ended)

    def _found(self) -> Generator[Tick, None, JsonObject | None]:
        finding = self._cache.found_or_awaited(self._key, self._ended, self._use, self._record)
        while True:
            began = time.monotonic()
            try:
                tick = next(finding)
            except StopIteration as end:
                found: JsonObject | None = end.value
                return found
            finally:
                self._waited += time.monotonic() - began
            yield tick

    def _from_upstream(self) -> Iterator[Sequence[Chunk]]:
        kept = _KeptAnswer()
        self._asked = self._ask()
        for chunks in self._asked:
            kept.add(chunks)
            yield chunks
        if not self._closed and (value := kept.value()) is not None:
            self._cache.keep(self._key, value, self._record)


class _KeptAnswer:
    """Collects the chunks of an answer, as long as the answer may be kept."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._characters = 0
        self._keeps = True

    def add(self, chunks: Sequence[Chunk]) -> None:
        if not self._keeps:
            return
        self._chunks.extend(chunks)
        self._characters += sum(len(chunk.text) for chunk in chunks if isinstance(chunk, TextChunk))
        if self._characters > LARGEST_ANSWER or len(self._chunks) > MOST_CHUNKS:
            self._keeps = False
            self._chunks.clear()

    def value(self) -> JsonObject | None:
        """None if the answer may not be kept: it is too long, did not end well, or is more than a text."""
        if not self._keeps or not _is_whole_text(self._chunks):
            return None
        return {"chunks": list(map(chunk_to_json, self._chunks))}


def _is_whole_text(chunks: Sequence[Chunk]) -> bool:
    candidates = [candidate for chunk in chunks for candidate in chunk.candidates]
    parts = [part for candidate in candidates for part in candidate.parts]
    return (
        [each.finish_reason for each in candidates if each.finish_reason] == ["STOP"]
        and all(isinstance(part.data, str) for part in parts)
        and any(part.data and not part.thought for part in parts)
        and not any("groundingMetadata" in each.extra for each in candidates)
    )
