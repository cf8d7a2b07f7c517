"""Reads `context_management`, by which clients ask for edits of their conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bridge.gemini.types import ContextWish, JsonObject
from bridge.protocols.anthropic_messages.compaction import COMPACT_TYPE, compact_edit
from bridge.protocols.json_reading import optional

CONTEXT_MANAGEMENT = "context_management"

#: Reads an edit at a path. None: the edit asks for what happens anyway, or it is counted as a loss.
EditParser = Callable[[JsonObject, str], ContextWish | None]

EDITS: Mapping[str, EditParser] = {COMPACT_TYPE: compact_edit}


def context_wishes(body: JsonObject) -> tuple[ContextWish, ...]:
    edits: Any = optional(body.get(CONTEXT_MANAGEMENT) or {}, "edits", list, CONTEXT_MANAGEMENT) or ()
    wishes = (
        EDITS[edit["type"]](edit, f"{CONTEXT_MANAGEMENT}.edits[{index}]")
        for index, edit in enumerate(edits)
        if isinstance(edit, dict) and edit.get("type") in EDITS
    )
    return tuple(wish for wish in wishes if wish is not None)
