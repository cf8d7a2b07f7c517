"""Three dialects of the Responses API.

OpenAI's own, the bridge's extended one, and one adapted to Codex. Each dialect is a record of options; the
machine reads only these options, never the name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from bridge.protocols.base import Caller
from bridge.protocols.json_reading import invalid_field, quoted

HEADER = "x-bridge-dialect"  #: selects the dialect of a request; every answer has it too


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    call_status: str  #: of a finished call, and of an answer that ends with one
    ends_with: tuple[str, ...]  #: the events after the last item
    failure_ends_with: tuple[str, ...]
    limit_ends_with: tuple[str, ...]  #: the same if the token limit truncated the answer
    filter_fails: bool  #: a filtered answer is reported as failed, not as incomplete
    errors_in_stream: bool  #: some errors are sent in the stream even before its first event
    data_heartbeat: bool  #: the heartbeat is an event, not a comment
    echoes_tools: bool
    queued_event: bool = False  #: a background answer begins as queued
    codex_errors: bool = False  #: a failed response has the error codes that Codex acts on
    hosted_items: bool = True  #: calls of the bridge's own tools are items, not lines of reasoning
    repeats_text: bool = False  #: response.output_text.done also has the field `output_text`


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
        queued_event=True,
    ),
    # Codex treats a response.completed after response.failed as success, and retries a filtered answer five
    # times. Comments do not reset its idle timer.
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
        codex_errors=True,
        hosted_items=False,
    ),
}


def choose(caller: Caller) -> Dialect:
    """The dialect: from the header, else the caller's key, else the client's headers, else the operator's
    setting."""
    if (named := caller.headers.get(HEADER)) is not None:
        return _dialect_by_name(named.strip().lower())
    for name in (caller.key_dialect, _dialect_by_headers(caller), caller.preferences.get("dialect")):
        if name is not None and name in DIALECTS:
            return DIALECTS[name]
    return DIALECTS["openai"]


def _dialect_by_name(name: str) -> Dialect:
    if name not in DIALECTS:
        raise invalid_field(f"must be one of {', '.join(DIALECTS)}, not {quoted(name)}", HEADER)
    return DIALECTS[name]


def _dialect_by_headers(caller: Caller) -> str | None:
    """The dialect whose header patterns match the client's headers. The settings list patterns by dialect."""
    marks: Mapping[str, tuple[str, ...]] = caller.preferences.get("marks", {})
    headers = {"user-agent": ""} | {name.lower(): value for name, value in caller.headers.items()}
    lines = "\n".join([f"{name}: {value}".rstrip() for name, value in headers.items()]).lower()
    return next((name for name, patterns in marks.items() if _compile_patterns(patterns).search(lines)), None)


@lru_cache
def _compile_patterns(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """A regular expression for lines that match one of the patterns; `*` matches any text."""
    choices = [".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns]
    return re.compile(f"^(?:{'|'.join(choices)})$" if choices else "(?!)", re.MULTILINE)
