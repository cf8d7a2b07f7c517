"""Running answers end when their key is revoked, or, if configured, expires or has spent its budget."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from client_keys import KEYS_FILE, ClientKeys
from gunicorn_bridge import Bridge, gunicorn_bridge
from raw_clients import RAW_CLIENTS, RawClient
from scripted_gemini import ScriptedGemini, sse, text_chunk
from waiting import eventually

from bridge.access.authentication import Authenticator
from bridge.access.key_cache import BETWEEN_LOOKS, KeyCache
from bridge.access.limits import Limiter
from bridge.access.running_answers import RunningAnswers
from bridge.errors import BudgetSpent, LimitReached, NotAuthorized
from bridge.observe.record import Record
from bridge.settings import load
from bridge.settings.limits import Limits
from bridge.state.key_store import Rules
from bridge.state.ledger import Booking, LimitedSubject
from bridge.state.sqlite.ledger import SqliteLedger

#: A revoked key ends its streams within this time.
IN_TIME = 5.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A worker's monitor of running answers, with the test's files and clock."""

    def __init__(self, folder: Path, cut_streams: bool) -> None:
        self.clock = Clock()
        self.keys = ClientKeys(folder, self.clock)
        self.ledger = SqliteLedger(folder / "limits.sqlite3", self.clock)
        settings = load(environ={"BRIDGE_STATE_DIR": str(folder)})
        self.authenticator = Authenticator(settings, KeyCache(ClientKeys(folder), self.clock), self.clock)
        self.running = RunningAnswers(self.authenticator, Limiter(self.ledger, Limits()), cut_streams)

    def began(self, rules: Rules):
        secret = self.keys.add("alice", rules)
        self.identity = self.authenticator.authenticate([secret], "127.0.0.1", "")
        self.record = Record("id", "POST", "/")
        return self.running.watch(self.identity, self.record)

    def look(self, after: float = BETWEEN_LOOKS) -> None:
        self.clock.now += after
        self.running.look()


@pytest.fixture(params=[False, True], ids=["left", "cut_streams"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Watched:
    watched = Watched(tmp_path, request.param)
    watched.cuts = request.param
    return watched


def test_a_revoked_key_ends_its_answers(watched: Watched) -> None:
    interruption = watched.began(Rules())
    watched.look()
    assert interruption.error is None
    watched.keys.revoke("alice")
    watched.look()
    assert isinstance(interruption.error, NotAuthorized)
    assert "revoked" in interruption.error.message


def test_a_rotated_secret_ends_its_answers_after_the_grace_period(watched: Watched) -> None:
    interruption = watched.began(Rules())
    watched.keys.rotate("alice", 60)
    watched.look()
    assert interruption.error is None
    watched.look(60)
    assert "replaced" in interruption.error.message


def test_an_expired_key_ends_its_answers_if_configured(watched: Watched) -> None:
    interruption = watched.began(Rules(expires=watched.clock.now + 60))
    watched.look()
    assert interruption.error is None
    watched.look(60)
    assert (interruption.error is not None) == watched.cuts


@pytest.mark.parametrize(
    ("limits", "cut"),
    [
        (Limits(tokens_per_day=100), True),
        (Limits(cost_per_day=1.0), True),
        (Limits(tokens_per_minute=9), False),
    ],
)
def test_a_spent_budget_ends_answers_if_configured_but_a_minute_limit_never_does(
    watched: Watched, limits: Limits, cut: bool
) -> None:
    interruption = watched.began(Rules(limits=limits))
    watched.look()
    assert interruption.error is None
    subject = LimitedSubject(f"key:{watched.identity.key.id}", "", limits)
    watched.ledger.leave(Booking((subject,), watched.clock.now), 100, 2.0)
    watched.look()
    assert isinstance(interruption.error, BudgetSpent | LimitReached) == (cut and watched.cuts)


def test_a_lost_key_store_ends_no_running_answer(watched: Watched, tmp_path: Path) -> None:
    interruption = watched.began(Rules())
    (tmp_path / KEYS_FILE).unlink()
    watched.look()
    assert interruption.error is None


def test_a_finished_answer_is_no_longer_tracked(watched: Watched) -> None:
    interruption = watched.began(Rules())
    watched.record.tell()
    watched.keys.revoke("alice")
    watched.look()
    assert interruption.error is None


# --- in real workers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bridge(_gemini: ScriptedGemini, state: Path) -> Iterator[Bridge]:
    with gunicorn_bridge(
        GEMINI_API_KEY="upstream-key",
        GOOGLE_GEMINI_BASE_URL=_gemini.address,
        BRIDGE_STATE_DIR=str(state),
        BRIDGE_SERVER__HEARTBEAT="0.3",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


def long_answer(_request: object) -> list[object]:
    return [*sse(text_chunk("one ")), 20.0, *sse(text_chunk("two", "STOP"))]


def keyed(raw_client: RawClient, secret: str) -> RawClient:
    return replace(raw_client, headers={**raw_client.headers, "x-goog-api-key": secret})


def test_a_revoked_key_ends_running_streams_of_every_protocol(
    bridge: Bridge, gemini: ScriptedGemini, state: Path
) -> None:
    keys = ClientKeys(state)
    secret, other = keys.add("leaked", Rules()), keys.add("other", Rules())
    time.sleep(2)
    gemini.will_answer(long_answer)
    asks = [(keyed(raw_client, secret), stream) for raw_client in RAW_CLIENTS for stream in (True, False)]
    with ThreadPoolExecutor(len(asks) + 1) as pool:
        answers = [
            pool.submit(raw_client.ask, bridge.address, "gemini-3.8-flash", stream=stream)
            for raw_client, stream in asks
        ]
        unharmed = pool.submit(
            keyed(RAW_CLIENTS[0], other).ask, bridge.address, "gemini-3.8-flash", stream=True
        )
        assert eventually(lambda: len(gemini.asked) == len(asks) + 1)
        revoked = time.monotonic()
        keys.revoke("leaked")
        for answer in [each.result() for each in answers]:
            assert answer.failed
            assert answer.ended_legally
            assert answer.status == (200 if answer.stream else 401)
            assert b"was revoked" in answer.content
        assert time.monotonic() - revoked < IN_TIME
        assert unharmed.result().ended_well
    lines = bridge.requests(key="leaked")
    assert {line["error"] for line in lines} == {"unauthorized"}
    assert "without_terminal_event_total 0" in requests.get(f"{bridge.address}/metrics", timeout=30).text


def test_a_revoked_key_ends_background_work(bridge: Bridge, gemini: ScriptedGemini, state: Path) -> None:
    keys = ClientKeys(state)
    secret = keys.add("worker", Rules())
    time.sleep(2)
    gemini.will_answer(long_answer)
    headers = {"Authorization": f"Bearer {secret}", "x-request-id": "background-work"}
    body = {"model": "gemini-3.8-flash", "input": "Hello", "background": True}
    begun = requests.post(f"{bridge.address}/v1/responses", json=body, headers=headers, timeout=30)
    assert json.loads(begun.content)["status"] == "queued"
    keys.revoke("worker")
    assert eventually(lambda: bridge.requests(key="worker", error="unauthorized"), seconds=IN_TIME + 2)


def test_a_key_that_is_no_longer_valid_ends_a_replay_but_not_the_answer(
    bridge: Bridge, gemini: ScriptedGemini, state: Path
) -> None:
    keys = ClientKeys(state)
    old = keys.add("turned", Rules())
    new = keys.rotate("turned", 4.0)
    time.sleep(2)
    gemini.will_answer(long_answer)
    path = f"{bridge.address}/v1/responses"
    body = {"model": "gemini-3.8-flash", "input": "Hello", "background": True, "stream": True}
    with requests.post(path, json=body, headers=bearer(new), stream=True, timeout=30) as begun:
        lines = (line for line in begun.iter_lines() if line.startswith(b"data: "))
        answer_id = json.loads(next(lines).removeprefix(b"data: "))["response"]["id"]
    headers = {**bearer(old), "x-bridge-dialect": "openai"}
    replay = requests.get(f"{path}/{answer_id}?stream=true", headers=headers, timeout=15)
    last = [line for line in replay.text.splitlines() if line.startswith("data: {")][-1]
    event = json.loads(last.removeprefix("data: "))
    assert event["type"] == "response.failed"
    assert "was replaced" in event["response"]["error"]["message"]
    running = requests.get(f"{path}/{answer_id}", headers=bearer(new), timeout=15).json()
    assert running["status"] == "in_progress"


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}
