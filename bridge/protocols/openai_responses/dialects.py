"""Three ways to tell the same answer.

The official one, the bridge's own contract for callers written to it, and what Codex copes with best. Each is
a record of choices; the machine has no other way to tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from bridge.protocols.base import Caller
from bridge.protocols.json_reading import invalid_field, quoted

HEADER = "x-bridge-dialect"  #: a request may choose by it, and every answer says by it which was chosen


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    call_status: str  #: of a finished call, and of an answer that ends with one
    ends_with: tuple[str, ...]  #: the events after the last item
    failure_ends_with: tuple[str, ...]
    limit_ends_with: tuple[str, ...]  #: when the token limit cut the answer
    filter_fails: bool  #: a filtered answer is told as a failure, not as an incomplete one
    errors_in_stream: bool  #: some errors are told in the stream even before it began
    data_heartbeat: bool  #: the sign of life is an event, not a comment
    echoes_tools: bool
    repeats_text: bool = False  #: response.output_text.done carries the text under a second name too


_BRIDGE_END = ("response.done", "response.completed")

DIALECTS: Mapping[str, Dialect] = {
    "bridge": Dialect(
        name="bridge",
        call_status="requires_action",
        ends_with=_BRIDGE_END,
        failure_ends_with=("response.failed", *_BRIDGE_END),
        limit_ends_with=_BRIDGE_END,
        filter_fails=False,
        errors_in_stream=False,
        data_heartbeat=True,
        echoes_tools=True,
        repeats_text=True,
    ),
    "openai": Dialect(
        name="openai",
        call_status="completed",
        ends_with=("response.completed",),
        failure_ends_with=("response.failed",),
        limit_ends_with=("response.incomplete",),
        filter_fails=False,
        errors_in_stream=False,
        data_heartbeat=False,
        echoes_tools=True,
    ),
    # Codex takes a response.completed behind response.failed for success, repeats an answer that a filter cut
    # five times over, and its idle timer does not see comments.
    "codex": Dialect(
        name="codex",
        call_status="completed",
        ends_with=("response.completed",),
        failure_ends_with=("response.failed",),
        limit_ends_with=("response.incomplete",),
        filter_fails=True,
        errors_in_stream=True,
        data_heartbeat=True,
        echoes_tools=False,
    ),
}


def choose(caller: Caller) -> Dialect:
    """The header decides, then the caller's key, then the client's marks, then the operator's setting."""
    if (named := caller.headers.get(HEADER)) is not None:
        return _named(named.strip().lower())
    for wish in (caller.key_dialect, _marked(caller), caller.preferences.get("dialect")):
        if wish is not None and wish in DIALECTS:
            return DIALECTS[wish]
    return DIALECTS["openai"]


def _named(name: str) -> Dialect:
    if name not in DIALECTS:
        raise invalid_field(f"must be one of {', '.join(DIALECTS)}, not {quoted(name)}", HEADER)
    return DIALECTS[name]


def _marked(caller: Caller) -> str | None:
    """Marks are patterns of header lines, by dialect."""
    marks: Mapping[str, tuple[str, ...]] = caller.preferences.get("marks", {})
    headers = {"user-agent": ""} | {name.lower(): value for name, value in caller.headers.items()}
    lines = "\n".join([f"{name}: {value}".rstrip() for name, value in headers.items()]).lower()
    return next((name for name, patterns in marks.items() if _any_of(patterns).search(lines)), None)


@lru_cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """A line that is one of these, in which `*` stands for anything."""
    choices = [".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns]
    return re.compile(f"^(?:{'|'.join(choices)})$" if choices else "(?!)", re.MULTILINE)
