"""The same call over and over, with the company's quota.

Two detectors look at the calls since the user last spoke: so many identical ones at the end, and the last ten
against the ten before. Arguments are compared by meaning. A repetition that succeeds counts only if its
result is the same too, and tools that poll by design are exempt. Several identical calls of one turn count
once, also where a protocol tells each call by itself.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Container, Hashable, Iterable, Iterator
from itertools import count, groupby
from typing import Any, NamedTuple

import orjson

from bridge.gemini.types import (
    MODEL,
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    JsonObject,
    Part,
)
from bridge.guards.base import Guard, ShortCircuit
from bridge.guards.map_texts import with_texts

FAILURE_WORDS = (b"error", b"Error", b"failed")
#: Words that are about something else, then: a test run that says "0 failed", a search for "error".
_SUCCEEDED = re.compile(rb"(?i)exit(?:ed with)?[ _]code\"?[: ]+0\b")
#: Agents put these into the user's turn by themselves; they are not the user speaking.
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
#: Codex and Gemini CLI put these beside every output; they differ each time and mean nothing.
_CLOCK = re.compile(r"^(?:Chunk ID|Wall time|Process Group PGID): .*\n", re.MULTILINE)
_NUMBERS = count()
DEEPEST = 64
SHORTEST_LOOP = 4  #: two calls and their results, each a content


class _Call(NamedTuple):
    name: str
    args: bytes
    result: JsonObject

    @property
    def key(self) -> tuple[str, bytes]:
        return self.name, self.args


class _Made(NamedTuple):
    """A call and how it went. Results are long, so they are looked at only where the calls repeat."""

    key: tuple[str, bytes]
    failed: bool
    result: bytes  #: empty for a failure, which repeats itself whatever its words


class LoopDetector(Guard):
    name = "loop"

    def on_request(self, request: GenerateRequest) -> GenerateRequest | ShortCircuit:
        if len(request.contents) < SHORTEST_LOOP:
            return request
        limits = self.settings.loop
        horizon = max(2 * limits.window, limits.failures, limits.successes)
        calls = _recent_calls(request.contents, limits.polling, horizon)
        repeated = self._repeated_at_the_end(calls) or self._repeated_in_windows(calls)
        return request if repeated is None else ShortCircuit(repeated)

    def _repeated_at_the_end(self, calls: list[_Call]) -> str | None:
        limits = self.settings.loop
        least = min(limits.failures, limits.successes)
        if len(calls) < least or any(call.key != calls[-1].key for call in calls[-least:]):
            return None
        last = _made(calls[-1])
        needed = limits.failures if last.failed else limits.successes
        if len(calls) < needed or any(_made(call) != last for call in calls[-needed:]):
            return None
        how = "failed each time" if last.failed else "gave the same result each time"
        return _told(f"{calls[-1].name} was called {needed} times with the same arguments and {how}")

    def _repeated_in_windows(self, calls: list[_Call]) -> str | None:
        size, alike = self.settings.loop.window, self.settings.loop.alike
        if len(calls) < 2 * size:
            return None
        newer, older = calls[-size:], calls[-2 * size : -size]
        if _common((call.key for call in newer), (call.key for call in older)) < alike * size:
            return None
        equal = _common(map(_made, newer), map(_made, older))
        if equal < alike * size:
            return None
        return _told(f"{equal} of the last {size} calls repeat the {size} before them")


def _common(newer: Iterable[Hashable], older: Iterable[Hashable]) -> int:
    """Counted, not compared in place: a round of three is never in step with a window of ten."""
    return (Counter(newer) & Counter(older)).total()


def _told(what: str) -> str:
    return f"[System] Detected an infinite loop: {what}. Try another way, or ask the user how to go on."


def _recent_calls(contents: tuple[Content, ...], exempt: Container[str], most: int) -> list[_Call]:
    """The newest calls since the user last spoke, the oldest of them first."""
    results = _Results()
    found: list[_Call] = []
    since = reversed(contents[_start(contents) :])
    for is_model, turn in groupby(since, key=lambda content: content.role == MODEL):
        parts = [part for content in reversed(list(turn)) for part in content.parts]
        if is_model:
            found += reversed(list(_calls_of(parts, results, exempt)))
        results.add(parts)
        if len(found) >= most:
            break
    return found[::-1]


class _Results:
    """The results behind the calls that are looked at, going back in time."""

    def __init__(self) -> None:
        self._by_id: dict[str, JsonObject] = {}
        self._in_order: dict[str, deque[JsonObject]] = {}  # of the nearest turn, by the tool's name

    def add(self, parts: Iterable[Part]) -> None:
        # An id may be used again: the nearest result behind a call is its own.
        given = [part.data for part in parts if isinstance(part.data, FunctionResponse)]
        self._by_id |= {response.id: response.response for response in given if response.id}
        self._in_order = {}
        for response in given:
            if not response.id:
                self._in_order.setdefault(response.name, deque()).append(response.response)

    def take(self, call: FunctionCall) -> JsonObject | None:
        if call.id:
            return self._by_id.get(call.id)
        waiting = self._in_order.get(call.name)
        return waiting.popleft() if waiting else None


def _start(contents: tuple[Content, ...]) -> int:
    """Behind the last thing the user said."""
    for index in range(len(contents) - 1, -1, -1):
        if contents[index].role != MODEL and any(map(_is_said, contents[index].parts)):
            return index
    return 0


def _is_said(part: Part) -> bool:
    if isinstance(part.data, str):
        return bool(_REMINDER.sub("", part.data).strip())
    return part.data is not None and not isinstance(part.data, FunctionResponse)


def _calls_of(parts: Iterable[Part], results: _Results, exempt: Container[str]) -> Iterator[_Call]:
    """The calls of one turn. One that has no result yet repeats nothing."""
    seen: set[tuple[str, bytes]] = set()
    for call in (part.data for part in parts if isinstance(part.data, FunctionCall)):
        result = results.take(call)
        if result is None or call.name in exempt:
            continue
        made = _Call(call.name, _canonical(dict(call.args or {})), result)
        if made.key not in seen:
            seen.add(made.key)
            yield made


def _made(call: _Call) -> _Made:
    told = _canonical(dict(call.result))
    failed = any(word in told for word in FAILURE_WORDS) and not _SUCCEEDED.search(told)
    return _Made(call.key, failed, b"" if failed else told)


def _canonical(value: Any) -> bytes:
    """Equal for equal meaning: keys sorted, blanks around texts gone."""
    try:
        return orjson.dumps(
            with_texts(value, _trimmed, DEEPEST), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
        )
    except (orjson.JSONEncodeError, RecursionError):
        return b"?%d" % next(_NUMBERS)  # nothing is equal to what cannot be told


def _trimmed(text: str) -> str:
    return _CLOCK.sub("", text).strip()
