"""What holds for every store: it can be checked, and it names its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.settings.limits import Limits
from bridge.state.conversation_store import KeptConversation
from bridge.state.event_store import EventBatch
from bridge.state.flight_store import FlightRow
from bridge.state.key_store import NewSecret, Rules
from bridge.state.ledger import LimitedSubject
from bridge.state.usage_store import Refusal

SUBJECT = LimitedSubject("key:1", "the key", Limits(requests_per_minute=1))
FLIGHT = FlightRow("f", 0.0, "r", "", "", "", "", "", 200, "completed", "", "shape", "all", "", 4)

#: How each store writes something.
USES: dict[str, Callable[[Any], object]] = {
    "keys": lambda store: store.add("alice", Rules(), NewSecret(b"digest", "hint")),
    "ledger": lambda store: store.enter([SUBJECT]),
    "usage": lambda store: store.count_refusals({Refusal("2026-11-17", "k", "p", "r", "m"): 1}),
    "answers": lambda store: store.keep("me", {"id": "resp_1", "output": []}, [], None),
    "events": lambda store: store.append("me", "resp_1", EventBatch(0, 1, b"data: 1\n\n")),
    "conversations": lambda store: store.create("me", KeptConversation("conv_1", 1, {}), []),
    "signatures": lambda store: store.keep("me", "family", {"call": "signature"}),
    "cooldowns": lambda store: store.rest("model", 60),
    "flights": lambda store: store.keep(FLIGHT, b"data"),
    "summaries": lambda store: store.keep("me", b"digest", "a summary"),
    "agent_runs": lambda store: store.add("guide-1", 0, b"{}"),
    "learnt_facts": lambda store: store.learn("fact"),
    "upstream_failures": lambda store: store.failed("one", "overloaded"),
}


@pytest.mark.parametrize("name", USES)
def test_a_store_is_checked_before_and_after_its_first_use(backend, name: str) -> None:
    store = getattr(backend, name)()
    before = store.check()
    assert (before.exists, before.problem) == (False, "")
    USES[name](store)
    after = getattr(backend, name)().check()
    assert (after.exists, after.problem, after.remedy) == (True, "", "")
    assert after.name == before.name
    assert after.name in store.location


@pytest.mark.parametrize("name", USES)
def test_opening_and_checking_a_store_creates_nothing(backend, name: str, tmp_path: Path) -> None:
    getattr(backend, name)().check()
    assert list(tmp_path.iterdir()) == []
