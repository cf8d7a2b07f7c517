"""Detects an agent that repeats the same calls in an endless loop.

Two checks cover the calls since the user's last message: a number of identical calls at the end, and
a window of calls that repeats the window before. Arguments are compared by meaning. A successful call
counts as repeated only if its result is the same too, and polling tools are exempt. Identical calls of one
turn count once, even if a protocol sends each call as its own message.
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
from bridge.guards.map_texts import map_texts

FAILURE_WORDS = (b"error", b"Error", b"failed")
#: With exit code 0 the failure words mean nothing: a test run prints "0 failed", a search looks for "error".
_EXIT_CODE_ZERO = re.compile(rb"(?i)exit(?:ed with)?[ _]code\"?[: ]+0\b")
#: Agents add these to the user's turn themselves; the user did not write them.
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
#: Codex and Gemini CLI add these lines to every output. They differ each time and mean nothing.
_TIMING_LINES = re.compile(r"^(?:Chunk ID|Wall time|Process Group PGID): .*\n", re.MULTILINE)
_UNIQUE_NUMBERS = count()
MAX_DEPTH = 64
SHORTEST_LOOP = 4  #: contents: two calls and their two results


class _AnsweredCall(NamedTuple):
    name: str
    args: bytes
    result: JsonObject

    @property
    def key(self) -> tuple[str, bytes]:
        return self.name, self.args


class _CallOutcome(NamedTuple):
    """A call and its result in comparable form. Computed only for repeated calls, since results are
    long."""

    key: tuple[str, bytes]
    failed: bool
    result: bytes  #: empty for a failure: failures are equal, whatever their text


class LoopDetector(Guard):
    name = "loop"

    def on_request(self, request: GenerateRequest) -> GenerateRequest | ShortCircuit:
        if len(request.contents) < SHORTEST_LOOP:
            return request
        limits = self.settings.loop
        horizon = max(2 * limits.window, limits.failures, limits.successes)
        calls = _recent_calls(request.contents, limits.polling, horizon)
        repeated = self._find_identical_calls(calls) or self._find_repeated_window(calls)
        return request if repeated is None else ShortCircuit(repeated)

    def _find_identical_calls(self, calls: list[_AnsweredCall]) -> str | None:
        limits = self.settings.loop
        least = min(limits.failures, limits.successes)
        if len(calls) < least or any(call.key != calls[-1].key for call in calls[-least:]):
            return None
        last = _outcome_of(calls[-1])
        needed = limits.failures if last.failed else limits.successes
        if len(calls) < needed or any(_outcome_of(call) != last for call in calls[-needed:]):
            return None
        how = "failed each time" if last.failed else "gave the same result each time"
        return _message(f"{calls[-1].name} was called {needed} times with the same arguments and {how}")

    def _find_repeated_window(self, calls: list[_AnsweredCall]) -> str | None:
        size, alike = self.settings.loop.window, self.settings.loop.alike
        if len(calls) < 2 * size:
            return None
        newer, older = calls[-size:], calls[-2 * size : -size]
        if _overlap((call.key for call in newer), (call.key for call in older)) < alike * size:
            return None
        equal = _overlap(map(_outcome_of, newer), map(_outcome_of, older))
        if equal < alike * size:
            return None
        return _message(f"{equal} of the last {size} calls repeat the {size} before them")


def _overlap(newer: Iterable[Hashable], older: Iterable[Hashable]) -> int:
    """The number of common items, in any order: a cycle of three calls never aligns with a window of ten."""
    return (Counter(newer) & Counter(older)).total()


def _message(problem: str) -> str:
    return f"[System] Detected an infinite loop: {problem}. Try another way, or ask the user how to go on."


def _recent_calls(contents: tuple[Content, ...], exempt: Container[str], most: int) -> list[_AnsweredCall]:
    """The newest calls since the user's last message, the oldest first."""
    results = _PendingResults()
    found: list[_AnsweredCall] = []
    newest_first = reversed(contents[_last_user_input(contents) :])
    for is_model, turn in groupby(newest_first, key=lambda content: content.role == MODEL):
        parts = [part for content in reversed(list(turn)) for part in content.parts]
        if is_model:
            found += reversed(list(_answered_calls(parts, results, exempt)))
        results.add(parts)
        if len(found) >= most:
            break
    return found[::-1]


class _PendingResults:
    """Finds the result of each call, while the loop goes back through the history."""

    def __init__(self) -> None:
        self._by_id: dict[str, JsonObject] = {}
        self._in_order: dict[str, deque[JsonObject]] = {}  # of the nearest turn, by tool name

    def add(self, parts: Iterable[Part]) -> None:
        # Clients may reuse an id: the nearest result after a call belongs to it.
        given = [part.data for part in parts if isinstance(part.data, FunctionResponse)]
        self._by_id |= {response.id: response.response for response in given if response.id}
        self._in_order = {}
        for response in given:
            if not response.id:
                self._in_order.setdefault(response.name, deque()).append(response.response)

    def take(self, call: FunctionCall) -> JsonObject | None:
        if call.id:
            return self._by_id.get(call.id)
        results = self._in_order.get(call.name)
        return results.popleft() if results else None


def _last_user_input(contents: tuple[Content, ...]) -> int:
    """The index of the last content with input from the user."""
    for index in range(len(contents) - 1, -1, -1):
        if contents[index].role != MODEL and any(map(_is_user_input, contents[index].parts)):
            return index
    return 0


def _is_user_input(part: Part) -> bool:
    if isinstance(part.data, str):
        return bool(_REMINDER.sub("", part.data).strip())
    return part.data is not None and not isinstance(part.data, FunctionResponse)


def _answered_calls(
    parts: Iterable[Part], results: _PendingResults, exempt: Container[str]
) -> Iterator[_AnsweredCall]:
    """The calls of one turn that have a result."""
    seen: set[tuple[str, bytes]] = set()
    for call in (part.data for part in parts if isinstance(part.data, FunctionCall)):
        result = results.take(call)
        if result is None or call.name in exempt:
            continue
        call_with_result = _AnsweredCall(call.name, _canonical_json(dict(call.args or {})), result)
        if call_with_result.key not in seen:
            seen.add(call_with_result.key)
            yield call_with_result


def _outcome_of(call: _AnsweredCall) -> _CallOutcome:
    encoded = _canonical_json(dict(call.result))
    failed = any(word in encoded for word in FAILURE_WORDS) and not _EXIT_CODE_ZERO.search(encoded)
    return _CallOutcome(call.key, failed, b"" if failed else encoded)


def _canonical_json(value: Any) -> bytes:
    """JSON that is equal for equal meaning: keys sorted, surrounding blanks and timing lines removed."""
    try:
        return orjson.dumps(
            map_texts(value, _normalised, MAX_DEPTH), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
        )
    except (orjson.JSONEncodeError, RecursionError):
        return b"?%d" % next(_UNIQUE_NUMBERS)  # a value that cannot be serialised equals no other


def _normalised(text: str) -> str:
    return _TIMING_LINES.sub("", text).strip()
