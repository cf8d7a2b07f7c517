"""Shadow arms: copies that are sent, whose answers nobody gets, and of which only a usage row stays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import date
from pathlib import Path
from typing import Any

import orjson
import pytest
from client_keys import ClientKeys
from experiment_rows import settings_folder
from flask import Flask
from scripted_gemini import Asked, Reply, ScriptedGemini, call_chunk, sse, text_chunk
from waiting import eventually

from bridge.exchange import shadow_arms
from bridge.exchange.shadow_arms import DailyBudget, owner_of_costs
from bridge.server.app_keys import SLOTS
from bridge.settings import Settings, load
from bridge.state.errors import StorageUnavailable
from bridge.state.key_store import Rules
from bridge.state.sqlite.usage_store import SqliteUsageStore
from bridge.state.stores import Stores, open_stores
from bridge.state.usage_store import ExperimentRequest, UsageGroup, UsageQuery, UsageSums
from bridge.web import app as web_app
from bridge.web.app import create_app

REAL, SHADOW = "gemini-3.8-flash", "gemini-3.1-pro-preview"
ROWS = f"""
[[experiment]]
name = "copy"
aliases = ["sonnet"]
except_keys = ["private"]

[[experiment.arm]]
name = "now"
weight = 1
model = "{REAL}"

[[experiment.shadow]]
name = "pro"
model = "{SHADOW}"
share = 1
cost_per_day = 1.0
"""
HELLO = [{"role": "user", "content": "Hello"}]
FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object"}}
SECRET = "The shadow's answer"
USED = {"promptTokenCount": 1000, "candidatesTokenCount": 1000, "totalTokenCount": 2000}
COST = 0.014  #: of these tokens, by prices.toml
OWNER = owner_of_costs("copy", "pro")

#: What the threads of shadows may do with the stores: read, and hand over their usage row.
MAY_DO = {
    ("usage", "keep"),
    ("usage", "sums"),
    ("signatures", "find"),
    ("signatures", "of"),
    ("learnt_facts", "knows"),
    ("cooldowns", "left"),
}


class Spy:
    """A store that tells who calls which of its methods."""

    def __init__(self, name: str, store: Any, calls: list[tuple[str, str, str]]) -> None:
        self._name, self._store, self._calls = name, store, calls

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._store, attribute)
        if callable(value):
            self._calls.append((threading.current_thread().name, self._name, attribute))
        return value


class Side:
    """The bridge with its upstream, and what the stores were asked."""

    def __init__(self, app: Flask, gemini: ScriptedGemini, folder: Path, calls: list[Any]) -> None:
        self.app, self.client, self.gemini, self.calls = app, app.test_client(), gemini, calls
        self._folder = folder

    def post(self, path: str = "/v1/chat/completions", **body: Any) -> Any:
        headers = body.pop("headers", {})
        asked = {"model": "sonnet", "messages": HELLO, **body}
        answer = self.client.post(
            path, json={name: value for name, value in asked.items() if value}, headers=headers
        )
        answer.get_data()
        answer.close()
        return answer

    def sent(self, model: str) -> list[Asked]:
        return [each for each in self.gemini.asked if f"/{model}:" in each.path]

    def shadowed(self, count: int = 1) -> list[Asked]:
        """The requests to the shadow, when so many have arrived."""
        assert eventually(lambda: len(self.sent(SHADOW)) >= count)
        return self.sent(SHADOW)

    def rows(self) -> list[ExperimentRequest]:
        path = self._folder / "accounts.sqlite3"
        store = SqliteUsageStore(path, days=9, request_days=9, megabytes=9)
        return store.experiment_requests("copy", date(2000, 1, 1), date(2100, 1, 1))

    def shadow_row(self) -> ExperimentRequest:
        found: list[ExperimentRequest] = []

        def written() -> bool:
            found[:] = [row for row in self.rows() if row.assignment == "shadow"]
            return bool(found)

        assert eventually(written)
        return found[-1]

    def ends(self) -> dict[str, float]:
        """How copies ended since the start of the process."""
        page = self.client.get("/metrics").get_data(as_text=True)
        lines = [
            line for line in page.splitlines() if line.startswith("gemini_bridge_shadow_requests_total{")
        ]
        return {line.partition('end="')[2].partition('"')[0]: float(line.split()[-1]) for line in lines}

    def end_of(self, act: Callable[[], object]) -> str:
        """How the copy of this request ends."""
        before = self.ends()
        act()
        found: list[str] = []

        def ended() -> bool:
            now = self.ends()
            found[:] = [end for end in now if now[end] > before.get(end, 0)]
            return bool(found)

        assert eventually(ended)
        return found[0]


@pytest.fixture
def make(
    tmp_path: Path, gemini: ScriptedGemini, canary_key: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Side]:
    calls: list[tuple[str, str, str]] = []

    def spied(settings: Settings) -> Stores:
        stores = open_stores(settings)
        found = {each.name: getattr(stores, each.name) for each in fields(stores)}
        return replace(
            stores, **{name: Spy(name, store, calls) for name, store in found.items() if store is not None}
        )

    def made(rows: str = ROWS, **settings: str) -> Side:
        monkeypatch.setattr(web_app, "open_stores", spied)
        environ = {
            "BRIDGE_STATE_DIR": str(tmp_path / "state"),
            "GEMINI_API_KEY": canary_key,
            "GOOGLE_GEMINI_BASE_URL": gemini.address,
            "BRIDGE_UPSTREAM__ATTEMPTS": "1",
            **settings,
        }
        app = create_app(load(settings_folder(tmp_path, rows), environ))
        return Side(app, gemini, tmp_path / "state", calls)

    return made


@pytest.fixture
def side(make: Callable[..., Side], gemini: ScriptedGemini) -> Side:
    def answer(asked: Asked) -> Any:
        if f"/{SHADOW}:" in asked.path:
            return sse(text_chunk(SECRET), text_chunk(".", "STOP", **USED))
        return sse(text_chunk("Hello.", "STOP"))

    gemini.will_answer(answer)
    return make()


def test_the_copy_equals_the_request_but_for_what_its_model_needs(side: Side) -> None:
    side.post("/v1/responses", input="Hi", messages=None, tools=[FUNCTION], store=True, temperature=0.5)
    (copy,) = side.shadowed()
    (real,) = side.sent(REAL)
    assert copy.body["contents"] == real.body["contents"]
    assert copy.body["tools"] == real.body["tools"], "declared, and never executed"
    assert copy.body["generationConfig"] == real.body["generationConfig"]
    assert copy.body["store"] is False


def test_the_answer_of_a_shadow_never_reaches_the_client(side: Side) -> None:
    for stream in (False, True):
        answer = side.post(stream=stream)
        assert SECRET.encode() not in answer.data
        assert b"Hello." in answer.data
        assert answer.headers["x-bridge-model"] == REAL
        assert answer.headers["x-bridge-experiment"] == "copy; arm=now"
    side.shadowed(2)


def test_a_shadow_has_a_usage_row_of_its_own_and_writes_nothing_else(side: Side) -> None:
    side.gemini.will_answer(
        lambda asked: (
            sse(
                call_chunk("look", {}, "call_of_the_shadow", signature="c2lnbmF0dXJl"),
                text_chunk(SECRET, "STOP", **USED),
            )
            if f"/{SHADOW}:" in asked.path
            else sse(text_chunk("Hello.", "STOP"))
        )
    )
    side.post(headers={"x-bridge-cache": "on"})
    side.post("/v1/responses", input="Hi", messages=None, tools=[FUNCTION], store=True)
    side.shadowed(2)
    row = side.shadow_row()
    assert (row.key, row.arm, row.assignment, row.failed) == (OWNER, "pro", "shadow", False)
    assert (row.input, row.cost) == (1000, pytest.approx(COST))
    assert 0 < row.first_byte <= row.seconds
    in_shadows = {call[1:] for call in side.calls if call[0].startswith("shadow-")}
    assert in_shadows
    assert in_shadows <= MAY_DO
    for file in (side._folder).iterdir():
        assert SECRET.encode() not in file.read_bytes(), file
        assert b"call_of_the_shadow" not in file.read_bytes(), file
        assert b"c2lnbmF0dXJl" not in file.read_bytes(), file


def test_a_refused_shadow_is_not_retried_and_rests_no_key(side: Side) -> None:
    def answer(asked: Asked) -> Any:
        return Reply(status=429) if f"/{SHADOW}:" in asked.path else sse(text_chunk("Hello.", "STOP"))

    side.gemini.will_answer(answer)
    assert side.end_of(side.post) == "failed"
    row = side.shadow_row()
    assert (row.failed, row.cost) == (True, 0.0)
    assert len(side.sent(SHADOW)) == 1
    assert not [call for call in side.calls if call[1:] == ("cooldowns", "rest")]
    assert side.post().status_code == 200


def test_an_answer_that_takes_too_long_is_given_up(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_arms, "DEADLINE", 0.1)
    side.gemini.will_answer(
        lambda asked: (
            [*sse(text_chunk("a")), 1.5, *sse(text_chunk("b")), 30, *sse(text_chunk("c", "STOP"))]
            if f"/{SHADOW}:" in asked.path
            else sse(text_chunk("Hello.", "STOP"))
        )
    )
    began = time.monotonic()
    assert side.end_of(side.post) == "failed"
    assert time.monotonic() - began < 10
    assert side.shadow_row().failed


# --- what is not copied -------------------------------------------------------------------------------


def test_requests_with_googles_tools_are_not_copied(side: Side) -> None:
    """Google would run the tools a second time."""
    search = {"input": "Hi", "messages": None, "tools": [{"type": "web_search"}]}
    assert side.end_of(lambda: side.post("/v1/responses", **search)) == "tools"
    assert side.sent(SHADOW) == []


def test_a_busy_process_copies_nothing(side: Side) -> None:
    slots = side.app.extensions[SLOTS]
    taken = [slots.take() for _ in range(61)]  # of 120
    assert side.end_of(side.post) == "busy"
    for slot in taken:
        slot.release()
    assert side.end_of(side.post) == "answered"


def test_a_large_request_is_not_copied(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_arms, "LARGEST", 100)
    assert side.end_of(lambda: side.post(messages=[{"role": "user", "content": "x" * 101}])) == "large"


@pytest.mark.parametrize(("limit", "value"), [("MOST_WAITING", 2), ("MOST_CHARACTERS", 10)])
def test_the_queue_is_bounded(side: Side, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    """Both threads wait for an answer. Two more copies fit into the queue, by number or by size, which is 5
    for each."""
    monkeypatch.setattr(shadow_arms, limit, value)
    go = threading.Event()

    def answer(asked: Asked) -> Any:
        if f"/{SHADOW}:" in asked.path:
            return [lambda: go.wait(30), *sse(text_chunk(SECRET, "STOP"))]
        return sse(text_chunk("Hello.", "STOP"))

    side.gemini.will_answer(answer)
    try:
        for number in range(2):
            side.post()
            side.shadowed(number + 1)
        side.post()
        side.post()
        assert side.end_of(side.post) == "full"
        assert len(side.sent(REAL)) == 5, "no client's request waits for a shadow"
    finally:
        go.set()
    side.shadowed(4)


def test_private_keys_have_no_shadow(side: Side, tmp_path: Path) -> None:
    keys = ClientKeys(tmp_path / "state")
    private, public = (keys.add(name, Rules()) for name in ("private", "public"))
    for secret in (private, public):
        assert side.post(headers={"authorization": f"Bearer {secret}"}).status_code == 200
    side.shadowed(1)
    time.sleep(0.3)
    assert len(side.sent(SHADOW)) == 1


def test_only_requests_of_the_control_are_copied(make, gemini: ScriptedGemini) -> None:
    other = '[[experiment.arm]]\nname = "b"\nweight = 1\nmodel = "gemini-3.6-flash"\n'
    side = make(ROWS.replace("[[experiment.shadow]]", f"{other}\n[[experiment.shadow]]"))
    for number in range(20):
        side.post(headers={"x-session-id": str(number)})
    copied = len(side.sent(REAL))
    assert 0 < copied < 20
    assert len(side.shadowed(copied)) == copied


def test_a_share_of_the_requests_is_copied(make, gemini: ScriptedGemini) -> None:
    side = make(
        ROWS.replace("share = 1\n", "share = 0.2\n").replace("cost_per_day = 1.0", "cost_per_day = 99")
    )
    before = sum(side.ends().values())
    for _ in range(200):
        side.post()
    assert eventually(lambda: sum(side.ends().values()) - before > 15)
    time.sleep(0.3)
    assert sum(side.ends().values()) - before < 80


# --- the budget ---------------------------------------------------------------------------------------


def test_a_spent_budget_stops_the_shadow_and_nothing_else(make, side: Side, gemini: ScriptedGemini) -> None:
    side = make(ROWS.replace("cost_per_day = 1.0", "cost_per_day = 0.02"))
    assert [side.end_of(side.post) for _ in range(3)] == ["answered", "answered", "spent"]
    assert len(side.sent(SHADOW)) == 2
    assert len(side.sent(REAL)) == 3
    assert eventually(lambda: len([row for row in side.rows() if row.assignment == "shadow"]) == 2)
    restarted = make(ROWS.replace("cost_per_day = 1.0", "cost_per_day = 0.02"))
    assert restarted.end_of(restarted.post) == "spent", "the cost of today outlives the process"


class FakeUsage:
    def __init__(self) -> None:
        self.cost, self.queries, self.away = 0.0, list[UsageQuery](), False

    def sums(self, query: UsageQuery) -> list[UsageGroup]:
        if self.away:
            raise StorageUnavailable("gone", "the database")
        self.queries.append(query)
        return [UsageGroup((query.key or "",), UsageSums(cost=self.cost))]


def test_the_budget_counts_what_other_processes_spent_and_is_spent_if_that_is_unknown() -> None:
    now, usage = [0.0], FakeUsage()
    budget = DailyBudget(usage, lambda: now[0])
    assert not budget.is_spent(OWNER, 1.0)
    budget.add(OWNER, 0.6)
    assert not budget.is_spent(OWNER, 1.0)
    budget.add(OWNER, 0.4)
    assert budget.is_spent(OWNER, 1.0)
    assert len(usage.queries) == 1
    now[0] += shadow_arms.BUDGET_AGE + 1
    usage.cost = 0.9
    assert not budget.is_spent(OWNER, 1.0), "read anew"
    now[0] += shadow_arms.BUDGET_AGE + 1
    usage.away = True
    assert budget.is_spent(OWNER, 1.0)
    assert (usage.queries[0].by, usage.queries[0].key) == (("key",), OWNER)


def test_usage_reports_show_shadows_in_the_place_of_a_key(side: Side, tmp_path: Path) -> None:
    side.post()
    side.shadow_row()
    path = tmp_path / "state" / "accounts.sqlite3"
    store = SqliteUsageStore(path, days=9, request_days=9, megabytes=9)
    days = (date(2000, 1, 1), date(2100, 1, 1))
    groups = {group.names: group.sums for group in store.sums(UsageQuery(("key", "protocol"), *days))}
    assert groups[(OWNER, "shadow")].cost == pytest.approx(COST)
    assert orjson.dumps(OWNER) == b'"shadow:copy:pro"'
