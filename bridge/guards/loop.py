"""The same call over and over, with the company's quota.

Two detectors look at the calls since the user last spoke: so many identical ones at the end, and the last ten
against the ten before. Arguments are compared by meaning. A repetition that succeeds counts only if its
result is the same too, and tools that poll by design are exempt. Several identical calls of one turn count
once.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from bridge.guards.base import Guard, Instead

FAILURE_WORDS = (b"error", b"Error", b"failed")
#: Agents put these into the user's turn by themselves; they are not the user speaking.
REMINDER = "<system-reminder>"


class _Made(NamedTuple):
    """A call that was made, and how it went."""

    name: str
    args: bytes
    failed: bool
    result: bytes

    def same(self, other: _Made) -> bool:
        alike = self.name == other.name and self.args == other.args and self.failed == other.failed
        return alike and (self.failed or self.result == other.result)


class LoopDetector(Guard):
    name = "loop"

    def on_request(self, request: GenerateRequest) -> GenerateRequest | Instead:
        made = [
            call
            for call in _calls_since_user(request.contents)
            if call.name not in self.settings.loop.polling
        ]
        repeated = self._repeated_at_the_end(made) or self._repeated_in_windows(made)
        return request if repeated is None else Instead(repeated)

    def _repeated_at_the_end(self, made: list[_Made]) -> str | None:
        if not made:
            return None
        last, limits = made[-1], self.settings.loop
        needed = limits.failures if last.failed else limits.successes
        if len(made) < needed or not all(call.same(last) for call in made[-needed:]):
            return None
        how = "failed each time" if last.failed else "gave the same result each time"
        return _told(f"{last.name} was called {needed} times with the same arguments and {how}")

    def _repeated_in_windows(self, made: list[_Made]) -> str | None:
        size = self.settings.loop.window
        if len(made) < 2 * size:
            return None
        newer, older = made[-size:], made[-2 * size : -size]
        equal = sum(call.same(before) for call, before in zip(newer, older, strict=True))
        if equal < self.settings.loop.alike * size:
            return None
        return _told(f"{equal} of the last {size} calls repeat the {size} before them")


def _told(what: str) -> str:
    return f"[System] Detected an infinite loop: {what}. Try another way, or ask the user how to go on."


def _calls_since_user(contents: tuple[Content, ...]) -> list[_Made]:
    recent = contents[_start(contents) :]
    results = {
        part.data.id: part.data.response
        for content in recent
        for part in content.parts
        if isinstance(part.data, FunctionResponse) and part.data.id
    }
    return [made for content in recent if content.role == MODEL for made in _made(content, results)]


def _start(contents: tuple[Content, ...]) -> int:
    """Behind the last thing the user said."""
    for index in range(len(contents) - 1, -1, -1):
        if contents[index].role != MODEL and any(map(_is_said, contents[index].parts)):
            return index
    return 0


def _is_said(part: Part) -> bool:
    if isinstance(part.data, str):
        return not part.data.lstrip().startswith(REMINDER) and bool(part.data.strip())
    return part.data is not None and not isinstance(part.data, FunctionResponse)


def _made(content: Content, results: dict[str, JsonObject]) -> Iterator[_Made]:
    seen: set[_Made] = set()
    for call in content.calls():
        made = _one(call, results.get(call.id or ""))
        if made is not None and made not in seen:
            seen.add(made)
            yield made


def _one(call: FunctionCall, result: JsonObject | None) -> _Made | None:
    """None for a call that has no result yet: it repeats nothing."""
    if result is None:
        return None
    told = _canonical(dict(result))
    return _Made(
        call.name, _canonical(dict(call.args or {})), any(word in told for word in FAILURE_WORDS), told
    )


def _canonical(value: Any) -> bytes:
    """Equal for equal meaning: keys sorted, blanks around texts gone."""
    try:
        return orjson.dumps(_trimmed(value, 0), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except (orjson.JSONEncodeError, RecursionError):
        return repr(id(value)).encode()  # nothing is equal to what cannot be told


def _trimmed(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value.strip()
    if depth < 64 and isinstance(value, dict):
        return {key: _trimmed(item, depth + 1) for key, item in value.items()}
    if depth < 64 and isinstance(value, list):
        return [_trimmed(item, depth + 1) for item in value]
    return value
