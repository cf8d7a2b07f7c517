"""Compaction: a summary of the conversation as a block of the answer, which the client sends back.

A client asks for it with `compaction` and gets the block alone, signed; it puts the block first in the next
request, in place of the messages. Or it asks with an edit in `context_management`: when the prompt reaches a
threshold, the answer begins with the block, and everything before the block counts no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.errors import InvalidCompaction
from bridge.gemini.summary_part import COMPACTION, WrittenSummary
from bridge.gemini.types import ContextWish, JsonObject
from bridge.protocols.json_reading import invalid_field, lookup_by, optional, required
from bridge.protocols.summary_seal import StandsFor, SummarySeal, is_ours

FIELD = "compaction"
BLOCK = "compaction"
COMPACT_TYPE = "compact_20260112"
USUAL_TRIGGER, LEAST_TRIGGER = 150_000, 50_000
_LOSS = "messages.compaction"


# --- the wish ----------------------------------------------------------------------------------------


def compact_edit(edit: JsonObject, path: str) -> ContextWish:
    """The edit of `context_management`."""
    options: dict[str, Any] = {"threshold": _trigger(edit, path), **_instructions(edit, path)}
    if optional(edit, "pause_after_compaction", bool, path):
        options["alone"] = True
    return ContextWish(COMPACTION, options)


def _trigger(edit: JsonObject, path: str) -> int:
    trigger = optional(edit, "trigger", dict, path)
    if trigger is None:
        return USUAL_TRIGGER
    where = f"{path}.trigger"
    lookup_by(trigger, "type", {"input_tokens": None}, where)
    value = required(trigger, "value", int, where)
    if value < LEAST_TRIGGER:
        raise invalid_field(f"must be {LEAST_TRIGGER} or more, not {value}", f"{where}.value")
    return value


def _instructions(source: JsonObject, path: str) -> dict[str, str]:
    text = (optional(source, "instructions", str, path) or "").strip()
    return {"instructions": text} if text else {}


def compaction_on_demand(body: JsonObject) -> tuple[ContextWish, ...]:
    """The wish of the field `compaction`. Raises InvalidRequest if the conversation cannot be summarised."""
    wanted = body.get(FIELD)
    if wanted is None:
        return ()
    if not isinstance(wanted, dict):
        raise invalid_field("must be an object", FIELD)
    lookup_by(wanted, "type", {"summarize": None}, FIELD)
    if body.get("context_management"):
        raise invalid_field("cannot be combined with context_management", FIELD)
    _check_messages(body["messages"])
    return (ContextWish(COMPACTION, {"alone": True, **_instructions(wanted, FIELD)}),)


def _check_messages(messages: Any) -> None:
    said = [each for each in messages if isinstance(each, dict) and each.get("role") in ("user", "assistant")]
    if not said:
        raise _problem("messages", "there is nothing to summarize", "compaction_nothing_to_summarize")
    content = said[-1].get("content")
    blocks = content if isinstance(content, list) else ()
    if said[-1]["role"] == "assistant" and any(_is_call(block) for block in blocks):
        problem = "the conversation ends with a tool call that has no result; send the result first"
        raise _problem("messages", problem, "compaction_incomplete_turn")


def _is_call(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use"


# --- the block ---------------------------------------------------------------------------------------


def block_fields(summary: WrittenSummary, seal: SummarySeal, *, on_demand: bool) -> dict[str, Any]:
    """The fields of the block at its start. Its text follows in a delta, as does what a threshold seals."""
    fields: dict[str, Any] = {"content": None, "encrypted_content": None}
    if on_demand and summary.text is not None:
        fields["signature"] = seal.sign(summary.text, StandsFor.NOTHING_ELSE)
    return fields


def block_delta(summary: WrittenSummary, seal: SummarySeal, *, on_demand: bool) -> dict[str, Any]:
    sealed = None
    if not on_demand and summary.text is not None:
        sealed = seal.sign(summary.text, StandsFor.EVERYTHING)
    return {"content": summary.text, "encrypted_content": sealed}


def read_block(block: JsonObject, path: str, seal: SummarySeal) -> tuple[str, StandsFor] | str | None:
    """The text and what it stands for; the name of the loss if the bridge did not write it; None for a block
    without a summary. Raises InvalidCompaction for a changed block, or one of another owner."""
    text = optional(block, "content", str, path)
    if text is None:
        return None
    field = "signature" if block.get("signature") else "encrypted_content"
    given = optional(block, field, str, path) or ""
    if not is_ours(given):
        return _LOSS
    stands_for = seal.verified(text, given)
    if stands_for is None:
        problem = "does not belong to this summary; send the block as you received it"
        raise _problem(f"{path}.{field}", problem, "compaction_signature_invalid")
    return text, stands_for


def misplaced(path: str, *, is_second: bool) -> InvalidCompaction:
    if is_second:
        problem, code = "there is another one; send only the last", "compaction_block_ambiguous"
    else:
        problem, code = "it must be the first block of the conversation", "compaction_block_misplaced"
    return _problem(path, f"a signed compaction block: {problem}", code)


def _problem(path: str, problem: str, code: str) -> InvalidCompaction:
    error = InvalidCompaction(f"{path}: {problem}", param=path)
    error.code = code
    return error


def iteration(kind: str, usage: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of `usage.iterations`."""
    return {"type": kind, **usage}
