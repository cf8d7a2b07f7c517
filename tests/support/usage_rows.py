"""A usage row for tests; a test names only the fields that matter to it."""

from __future__ import annotations

from typing import Any

from bridge.ids_and_clock import random_id
from bridge.state.usage_store import UsageRow

NOON = 1_794_916_800.0  #: 2026-11-17


def row(at: float = NOON, **different: Any) -> UsageRow:
    names = ("alice", "openai_chat", "codex", "gpt-5", "known")
    tokens = (100, 10, 20, 5)
    usual = UsageRow(at, *names, *tokens, 0.5, 1.5, 0.2, "completed", "", 200, random_id("usage_"))
    return usual._replace(**different)
