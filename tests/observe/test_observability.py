"""Usage and metrics in production form: real gunicorn, two workers, one of which may be killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
import requests
from gunicorn_bridge import ROOT, Bridge, clean_environment, gunicorn_bridge, serves
from prometheus_client.parser import text_string_to_metric_families
from scripted_gemini import CUT, Reply, ScriptedGemini, sse, text_chunk
from waiting import eventually

from bridge.gemini.types import Usage
from bridge.settings import load
from bridge.state.stores import open_stores
from bridge.state.usage_store import UsageQuery, total

HELLO = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


@pytest.fixture(scope="module")
def _upstream() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


@pytest.fixture
def upstream(_upstream: ScriptedGemini) -> ScriptedGemini:
    _upstream.forget()
    return _upstream


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def served(upstream: ScriptedGemini, state: Path, **environment: str):
    return gunicorn_bridge(
        GEMINI_API_KEY="x",
        GOOGLE_GEMINI_BASE_URL=upstream.address,
        BRIDGE_STATE_DIR=str(state),
        BRIDGE_SERVER__HEARTBEAT="0.2",
        BRIDGE_UPSTREAM__ATTEMPTS="1",  # one upstream answer is counted once
        **environment,
    )


@pytest.fixture
def service(upstream: ScriptedGemini, state: Path) -> Iterator[Bridge]:
    with served(upstream, state) as running:
        yield running


def post(service: Bridge, path: str = CHAT, **body) -> requests.Response:
    return requests.post(f"{service.address}{path}", json={**HELLO, "max_tokens": 50, **body}, timeout=60)


def disconnect(service: Bridge) -> None:
    options = {"json": {**HELLO, "stream": True}, "stream": True, "timeout": 60}
    with requests.post(f"{service.address}{CHAT}", **options) as answer:
        next(answer.iter_content(10))


class Scrape:
    def __init__(self, service: Bridge) -> None:
        answer = requests.get(f"{service.address}/metrics", timeout=60)
        assert answer.status_code == 200
        self.samples = [
            sample for family in text_string_to_metric_families(answer.text) for sample in family.samples
        ]

    def sum(self, name: str, **labels: str) -> float:
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == f"gemini_bridge_{name}" and labels.items() <= sample.labels.items()
        )


def usage_of(state: Path, *arguments: str) -> dict:
    """Read the usage with the command line, in another process."""
    code = "import sys; from bridge.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = clean_environment() | {"BRIDGE_STATE_DIR": str(state), "GEMINI_API_KEY": "x"}
    ran = subprocess.run(
        [sys.executable, "-c", code, "usage", "--json", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(ran.stdout)


def accounted(state: Path) -> int:
    settings = load(environ={"BRIDGE_STATE_DIR": str(state)})
    always = UsageQuery(("day",), date(2000, 1, 1), date(2100, 1, 1))
    return total(open_stores(settings).usage.sums(always)).requests


# --- metrics -----------------------------------------------------------------------------------------


def test_every_worker_reports_the_metrics_of_all_workers(service):
    for _ in range(20):
        assert post(service).ok
        assert post(service, MESSAGES, model="haiku", stream=True).ok
    assert eventually(lambda: Scrape(service).sum("requests_total") == 40)
    for scrape in (Scrape(service) for _ in range(8)):
        assert scrape.sum("requests_total", protocol="openai_chat", outcome="completed") == 20
        assert scrape.sum("requests_total", protocol="anthropic_messages", model="gemini-flash-latest") == 20
        assert scrape.sum("request_duration_seconds_count") == 40
        assert scrape.sum("first_byte_seconds_count") == 20
        assert scrape.sum("tokens_total", kind="input") == 200
        assert scrape.sum("tokens_total", kind="output") == 80
        assert scrape.sum("streams_in_flight") == 0


def test_counters_of_a_killed_worker_stay_and_its_running_streams_become_zero(service, upstream):
    for _ in range(10):
        assert post(service).ok
    assert eventually(lambda: Scrape(service).sum("requests_total") == 10)
    upstream.will_say(*[[*sse(text_chunk("a")), 30.0] for _ in range(4)])
    options = {"json": {**HELLO, "stream": True}, "stream": True, "timeout": 60}
    streams = [requests.post(f"{service.address}{CHAT}", **options) for _ in range(4)]
    assert Scrape(service).sum("streams_in_flight") == 4
    first = set(service.workers())
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: len(set(service.workers()) - first) == 2)
    for stream in streams:
        stream.close()
    upstream.forget()
    assert eventually(lambda: serves(f"{service.address}/readyz"))
    scrape = Scrape(service)
    assert scrape.sum("requests_total") == 10
    assert scrape.sum("streams_in_flight") == 0
    for _ in range(10):
        assert post(service).ok
    assert eventually(lambda: Scrape(service).sum("requests_total") == 20)


def test_counters_survive_a_reload(service):
    assert post(service).ok
    assert eventually(lambda: Scrape(service).sum("requests_total") == 1)
    before = set(service.workers())
    service.signal(signal.SIGHUP)
    assert eventually(lambda: len(service.workers()) == 2 and not before & set(service.workers()))
    assert post(service).ok
    assert eventually(lambda: Scrape(service).sum("requests_total") == 2)


def test_a_failed_second_start_does_not_reset_the_metrics_of_the_first(service, state):
    assert post(service).ok
    port = service.address.rpartition(":")[2]
    second = subprocess.run(
        [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "app:app"],
        cwd=ROOT,
        env=clean_environment() | {"CODER_AGENT_PORT": port, "BRIDGE_STATE_DIR": str(state)},
        capture_output=True,
        timeout=60,
    )
    assert second.returncode != 0
    assert eventually(lambda: Scrape(service).sum("requests_total") == 1)


def test_guards_and_losses_are_counted(service, upstream):
    body = {"tools": [{"type": "file_search"}, {"type": f"my_own_{time.time()}"}], "input": "Hello"}
    answer = requests.post(f"{service.address}{RESPONSES}", json={"model": "gpt-5", **body}, timeout=60)
    assert answer.ok
    failed = {"role": "tool", "tool_call_id": "c", "content": "error: no such file"}
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    turns = [{"role": "assistant", "tool_calls": [call]}, failed] * 2
    assert "infinite loop" in post(service, messages=[*HELLO["messages"], *turns]).text
    scrape = Scrape(service)
    assert scrape.sum("notes_total", note="responses.tool") == 2
    assert scrape.sum("guard_actions_total", guard="loop", action="answered", mode="enforce") == 1
    assert not [sample for sample in scrape.samples if "my_own" in str(sample.labels)]


# --- usage -------------------------------------------------------------------------------------------


class Script:
    """A script for the upstream that sums up the usage of its answers."""

    def __init__(self, upstream: ScriptedGemini) -> None:
        self._upstream = upstream
        self.said: Counter[str] = Counter()
        self.cost = 0.0
        self._number = 0

    def will_say(self, *more, finish: str | None = "STOP", model: str = "gemini-pro-latest") -> None:
        self._number += 1
        usage = {
            "promptTokenCount": 1000 * self._number,
            "cachedContentTokenCount": 100 * self._number,
            "candidatesTokenCount": 10 * self._number,
            "thoughtsTokenCount": self._number,
        }
        running = {
            **usage,
            "candidatesTokenCount": 1,
            "thoughtsTokenCount": 0,
        }  # usage is cumulative; the last value is valid
        self._upstream.will_say([*sse(text_chunk("a", **running), text_chunk("b", finish, **usage)), *more])
        self.said += Counter(
            input=900 * self._number,
            cached=100 * self._number,
            output=10 * self._number,
            reasoning=self._number,
        )
        self.cost += load(environ={}).prices.cost_of(Usage(usage), model)


def test_recorded_usage_matches_the_upstreams_counts_however_a_request_ends(service, upstream, state):
    script = Script(upstream)
    script.will_say()
    assert post(service).ok
    script.will_say()
    assert post(service, stream=True).ok
    script.will_say(model="gemini-flash-latest")
    assert post(service, MESSAGES, model="haiku", stream=True).ok
    script.will_say(CUT, finish=None)
    assert "error" in post(service, stream=True).text
    script.will_say(CUT, finish=None)
    assert post(service).status_code == 502
    script.will_say(60.0, finish=None)
    disconnect(service)
    script.will_say()
    background = {"model": "gpt-5", "input": "Hello", "background": True}
    assert (
        requests.post(f"{service.address}{RESPONSES}", json=background, timeout=60).json()["status"]
        == "queued"
    )
    assert eventually(lambda: accounted(state) == 7)
    upstream.will_say(Reply([b"{}"], 503))
    assert post(service).status_code == 503
    assert post(service, temperature="hot").status_code == 400  # it fails before the upstream call
    assert eventually(lambda: accounted(state) == 8)

    told = usage_of(state)["total"]
    assert {kind: told[kind] for kind in script.said} == script.said
    assert told["cost"] == pytest.approx(script.cost)
    assert (told["requests"], told["failed"], told["client_left"], told["unpriced"]) == (8, 3, 1, 0)
    by_error = {row["error"]: row["requests"] for row in usage_of(state, "--by", "error")["rows"]}
    assert by_error == {"": 5, "truncated": 2, "overloaded": 1}
    by_protocol = {row["protocol"]: row["requests"] for row in usage_of(state, "--by", "protocol")["rows"]}
    assert by_protocol == {"openai_chat": 6, "anthropic_messages": 1, "openai_responses": 1}
    by_model = {row["model"]: row["requests"] for row in usage_of(state, "--by", "model")["rows"]}
    assert by_model == {"gemini-pro-latest": 7, "gemini-flash-latest": 1}
    scrape = Scrape(service)
    assert {kind: scrape.sum("tokens_total", kind=kind) for kind in script.said} == script.said
    assert scrape.sum("requests_total") == 10, "the background answer counts twice"


def test_usage_of_a_cancelled_background_answer_is_recorded(service, upstream, state):
    script = Script(upstream)
    sent = threading.Event()
    script.will_say(sent.set, 60.0, finish=None)
    url = f"{service.address}{RESPONSES}"
    made = requests.post(
        url, json={"model": "gpt-5", "input": "Hello", "background": True}, timeout=60
    ).json()
    assert sent.wait(30)
    requests.post(f"{url}/{made['id']}/cancel", timeout=60)
    assert eventually(lambda: accounted(state) == 1)
    assert usage_of(state)["total"]["input"] == script.said["input"]


def test_a_locked_usage_file_does_not_block_requests(service, state):
    assert post(service).ok
    assert eventually(lambda: accounted(state) == 1)
    locker = sqlite3.connect(state / "accounts.sqlite3")
    locker.execute("BEGIN EXCLUSIVE")
    for _ in range(40):
        assert post(service).ok
        assert post(service, stream=True).text.endswith("data: [DONE]\n\n")
    assert accounted(state) == 1, "the lock held all the while"
    locker.rollback()
    locker.close()
    assert eventually(lambda: accounted(state) == 81)
    assert Scrape(service).sum("accounts_rows_dropped_total") == 0


@pytest.mark.parametrize("trouble", ["a folder in the way", "no database"])
def test_an_unwritable_usage_file_does_not_block_requests(upstream, state, trouble):
    state.mkdir()
    if trouble == "no database":
        (state / "accounts.sqlite3").write_bytes(b"something else" * 1000)
    else:
        (state / "accounts.sqlite3").mkdir()
    with served(upstream, state) as service:
        assert {post(service).status_code for _ in range(30)} == {200}
        assert eventually(lambda: service.log_entries(logger="bridge.observe.usage_writer"))
        time.sleep(1.5)  # the writer retries in the meantime
        assert Scrape(service).sum("requests_total") == 30
        assert requests.get(f"{service.address}/readyz", timeout=60).ok
        assert len(service.log_entries(logger="bridge.observe.usage_writer")) <= 2, "one of each worker"


def test_pending_usage_is_written_when_the_service_stops(upstream, state):
    with served(upstream, state) as service:
        for _ in range(10):
            assert post(service).ok
    assert accounted(state) == 10
