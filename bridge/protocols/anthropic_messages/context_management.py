"""Reads `context_management`, by which clients ask for edits of their conversation, and writes what the
answer says about them. The edits themselves are in `bridge/context/`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bridge.gemini.context_steps import CLEAR_THINKING, CLEAR_TOOL_USES, StepTaken
from bridge.gemini.types import ContextWish, JsonObject
from bridge.protocols.anthropic_messages.compaction import COMPACT_TYPE, compact_edit
from bridge.protocols.base import ConvertedRequest, CountedTokens
from bridge.protocols.json_reading import (
    each_object,
    invalid_field,
    lookup_by,
    optional,
    quoted,
    required,
)

CONTEXT_MANAGEMENT = "context_management"
CLEAR_TOOL_USES_TYPE = "clear_tool_uses_20250919"
CLEAR_THINKING_TYPE = "clear_thinking_20251015"

USUAL_TRIGGER = ("input_tokens", 100_000)
_ALL = "all"

#: Reads an edit at a path. None: the edit asks for what happens anyway, or it is counted as a loss.
EditParser = Callable[[JsonObject, str], ContextWish | None]

#: For each step: the vendor's name of the edit, and the answer's field for its number of changes.
_APPLIED: Mapping[str, tuple[str, str]] = {
    CLEAR_TOOL_USES: (CLEAR_TOOL_USES_TYPE, "cleared_tool_uses"),
    CLEAR_THINKING: (CLEAR_THINKING_TYPE, "cleared_thinking_turns"),
}


def context_wishes(body: JsonObject) -> tuple[ContextWish, ...]:
    edits = optional(body.get(CONTEXT_MANAGEMENT) or {}, "edits", list, CONTEXT_MANAGEMENT)
    wishes: list[ContextWish] = []
    seen: list[str] = []
    for path, edit in each_object(edits or [], f"{CONTEXT_MANAGEMENT}.edits"):
        parse = lookup_by(edit, "type", EDITS, path)
        _check_order(edit["type"], seen, path)
        seen.append(edit["type"])
        if wish := parse(edit, path):
            wishes.append(wish)
    return tuple(wishes)


def applied_edits(taken: Iterable[StepTaken]) -> dict[str, Any]:
    """The answer's `context_management`."""
    applied = []
    for step in taken:
        if step.name in _APPLIED:
            kind, changes = _APPLIED[step.name]
            applied.append({"type": kind, changes: step.changes, "cleared_input_tokens": step.saved})
    return {"applied_edits": applied}


def count_body(counted: CountedTokens, asked: ConvertedRequest) -> JsonObject:
    body: dict[str, Any] = {"input_tokens": counted.tokens}
    if asked.options.manages_context:
        body[CONTEXT_MANAGEMENT] = {"original_input_tokens": counted.original}
    return body


def _check_order(kind: str, seen: list[str], path: str) -> None:
    if kind in seen:
        raise invalid_field(f"{quoted(kind)} is given twice", f"{path}.type")
    if kind == CLEAR_THINKING_TYPE and seen:
        raise invalid_field(f"{CLEAR_THINKING_TYPE} must be the first edit", f"{path}.type")


def _clear_tool_uses(edit: JsonObject, path: str) -> ContextWish:
    kind, value = _amount(edit, "trigger", ("input_tokens", "tool_uses"), path, least=1) or USUAL_TRIGGER
    options: dict[str, Any] = {kind: value}
    if (keep := _amount(edit, "keep", ("tool_uses",), path)) is not None:
        options["keep"] = keep[1]
    if (least := _amount(edit, "clear_at_least", ("input_tokens",), path)) is not None:
        options["clear_at_least"] = least[1]
    if edit.get("exclude_tools") is not None:
        options["exclude_tools"] = _names(edit, "exclude_tools", path)
    cleared = edit.get("clear_tool_inputs")
    if cleared is not None:
        options["clear_tool_inputs"] = (
            cleared if isinstance(cleared, bool) else _names(edit, "clear_tool_inputs", path)
        )
    return ContextWish(CLEAR_TOOL_USES, options)


def _amount(
    edit: JsonObject, field: str, kinds: tuple[str, ...], path: str, least: int = 0
) -> tuple[str, int] | None:
    """An object with a type and a value, such as `{"type": "tool_uses", "value": 3}`."""
    amount = optional(edit, field, dict, path)
    if amount is None:
        return None
    kind = lookup_by(amount, "type", dict(zip(kinds, kinds, strict=True)), f"{path}.{field}")
    value = required(amount, "value", int, f"{path}.{field}")
    if value < least:
        raise invalid_field(f"must be {least} or more, not {value}", f"{path}.{field}.value")
    return kind, value


def _names(edit: JsonObject, field: str, path: str) -> frozenset[str]:
    names = optional(edit, field, list, path) or []
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise invalid_field(f"must be a string, not {quoted(name)}", f"{path}.{field}[{index}]")
    return frozenset(names)


def _clear_thinking(edit: JsonObject, path: str) -> ContextWish | None:
    """Claude Code always asks to keep all thoughts, which needs no edit."""
    keep = edit.get("keep")
    if keep == _ALL or (isinstance(keep, dict) and keep.get("type") == _ALL):
        return None
    if isinstance(keep, str):
        raise invalid_field(f"must be {_ALL!r} or an object, not {quoted(keep)}", f"{path}.keep")
    named = _amount(edit, "keep", ("thinking_turns",), path, least=1)
    return ContextWish(CLEAR_THINKING, {"keep": named[1]} if named else {})


EDITS: Mapping[str, EditParser] = {
    CLEAR_TOOL_USES_TYPE: _clear_tool_uses,
    CLEAR_THINKING_TYPE: _clear_thinking,
    COMPACT_TYPE: compact_edit,
}
