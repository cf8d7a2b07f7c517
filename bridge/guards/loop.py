"""The same call over and over, with the company's quota.

Two detectors look at the calls since the user last spoke: so many identical ones at the end, and the last ten
against the ten before. Arguments are compared by meaning. A repetition that succeeds counts only if its
result is the same too, and tools that poll by design are exempt. Several identical calls of one turn count
once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
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
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
#: Codex puts these above every output; they differ each time and mean nothing.
_CLOCK = re.compile(r"^(?:Chunk ID|Wall time): .*\n", re.MULTILINE)
_NUMBERS = count()


class _Made(NamedTuple):
    """A call that was made, and how it went."""

    name: str
    args: bytes
    failed: bool
    result: bytes  #: empty for a failure, which repeats itself whatever its words


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
        if len(made) < needed or any(call != last for call in made[-needed:]):
            return None
        how = "failed each time" if last.failed else "gave the same result each time"
        return _told(f"{last.name} was called {needed} times with the same arguments and {how}")

    def _repeated_in_windows(self, made: list[_Made]) -> str | None:
        size = self.settings.loop.window
        if len(made) < 2 * size:
            return None
        # Counted, not compared in place: a round of three is never in step with a window of ten.
        equal = (Counter(made[-size:]) & Counter(made[-2 * size : -size])).total()
        if equal < self.settings.loop.alike * size:
            return None
        return _told(f"{equal} of the last {size} calls repeat the {size} before them")


def _told(what: str) -> str:
    return f"[System] Detected an infinite loop: {what}. Try another way, or ask the user how to go on."


def _calls_since_user(contents: tuple[Content, ...]) -> list[_Made]:
    recent = contents[_start(contents) :]
    results: dict[str, JsonObject] = {}
    made: list[list[_Made]] = []
    for content in reversed(recent):  # an id may be used again: the nearest result behind a call is its own
        if content.role == MODEL:
            made.append(list(_made(content, results)))
        for part in content.parts:
            if isinstance(part.data, FunctionResponse) and part.data.id:
                results[part.data.id] = part.data.response
    return [call for turn in reversed(made) for call in turn]


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
    failed = any(word in told for word in FAILURE_WORDS)
    return _Made(call.name, _canonical(dict(call.args or {})), failed, b"" if failed else told)


def _canonical(value: Any) -> bytes:
    """Equal for equal meaning: keys sorted, blanks around texts gone."""
    try:
        return orjson.dumps(_trimmed(value, 0), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except (orjson.JSONEncodeError, RecursionError):
        return b"?%d" % next(_NUMBERS)  # nothing is equal to what cannot be told


def _trimmed(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _CLOCK.sub("", value).strip()
    if depth < 64 and isinstance(value, dict):
        return {key: _trimmed(item, depth + 1) for key, item in value.items()}
    if depth < 64 and isinstance(value, list):
        return [_trimmed(item, depth + 1) for item in value]
    return value
