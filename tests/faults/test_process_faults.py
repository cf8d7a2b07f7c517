"""Stops, reloads and killed workers: streams end with their final event, and the service stays available."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest
import requests
from evil_gemini import Evil
from file_descriptor_limit import no_free_file_descriptors
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge, serves
from raw_clients import CHAT, RAW_CLIENTS, Answer, RawClient
from waiting import eventually

from tests.faults.conftest import SHORT_TIMEOUTS, fresh

LASTING = {
    **SHORT_TIMEOUTS,
    "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "60",
    "BRIDGE_UPSTREAM__READ_TIMEOUT": "60",
    "BRIDGE_UPSTREAM__ANSWER_TIMEOUT": "120",
    "BRIDGE_SERVER__GRACEFUL_TIMEOUT": "30",
}
HASTY = {**LASTING, "BRIDGE_SERVER__GRACEFUL_TIMEOUT": "5"}


def asked_together(
    threads: ThreadPoolExecutor, bridge: Bridge, evil: Evil, behaviour: str
) -> list[Future[Answer]]:
    """Send a request of every protocol; return when all have reached the upstream."""
    models = [fresh(behaviour) for _ in RAW_CLIENTS]
    asked = [
        threads.submit(raw_client.ask, bridge.address, model, stream=True)
        for raw_client, model in zip(RAW_CLIENTS, models, strict=True)
    ]
    assert eventually(lambda: all(evil.asked[model] for model in models))
    time.sleep(0.3)
    return asked


def refuses_connections(bridge: Bridge) -> bool:
    """A connection that is refused at once lets a proxy use another bridge; one that waits does not."""
    with socket.socket() as client:
        address = ("127.0.0.1", int(bridge.address.rpartition(":")[2]))
        return client.connect_ex(address) == errno.ECONNREFUSED


def test_a_stop_waits_for_running_streams(evil: Evil) -> None:
    with (
        ThreadPoolExecutor() as threads,
        gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **LASTING) as bridge,
    ):
        asked = asked_together(threads, bridge, evil, "long")
        bridge.signal(signal.SIGTERM)
        assert eventually(lambda: refuses_connections(bridge), 10)
        assert not any(each.done() for each in asked)
        answers = [each.result() for each in asked]
        assert all(answer.ended_well and b"done." in answer.content for answer in answers)
        assert bridge.process.wait(40) == 0


@pytest.mark.parametrize("behaviour", ["silent", "never-ending"])
def test_a_stream_that_cannot_finish_in_time_gets_its_last_event(evil: Evil, behaviour: str) -> None:
    with (
        ThreadPoolExecutor() as threads,
        gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **HASTY) as bridge,
    ):
        asked = asked_together(threads, bridge, evil, behaviour)
        bridge.signal(signal.SIGTERM)
        answers = [each.result() for each in asked]
        assert all(answer.status == 200 and answer.ended_legally and answer.failed for answer in answers)
        assert bridge.process.wait(40) == 0
        assert {line["error"] for line in bridge.requests()} == {"shutting_down"}


def test_a_reload_keeps_running_streams_and_starts_new_workers(evil: Evil) -> None:
    with (
        ThreadPoolExecutor() as threads,
        gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **LASTING) as bridge,
    ):
        old = set(bridge.workers())
        asked = asked_together(threads, bridge, evil, "long")
        bridge.signal(signal.SIGHUP)
        assert eventually(lambda: bool(set(bridge.workers()) - old))
        assert CHAT.ask(bridge.address, fresh("good"), stream=True).ended_well
        assert all(each.result().ended_well for each in asked)
        assert eventually(lambda: not old & set(bridge.workers()))


def test_a_reload_with_a_broken_configuration_leaves_the_old_one_serving(evil: Evil, tmp_path: Path) -> None:
    config = tmp_path / "config"
    shutil.copytree(ROOT / "config", config, ignore=shutil.ignore_patterns("local.toml"))
    environment = {**LASTING, "BRIDGE_CONFIG_DIR": str(config)}
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **environment) as bridge:
        old = set(bridge.workers())
        (config / "local.toml").write_text("[server]\nthreads = 'many'\n")
        bridge.signal(signal.SIGHUP)
        assert eventually(lambda: not old & set(bridge.workers()) and len(bridge.workers()) == 2)
        assert CHAT.ask(bridge.address, fresh("good"), stream=True).ended_well
        assert "reload rejected" in bridge.lines()
        assert "server.threads must be a whole number" in bridge.lines()
        (config / "local.toml").write_text("[log]\nlevel = 'error'\n")
        bridge.signal(signal.SIGHUP)
        assert eventually(lambda: quiet_by_now(bridge)), "a mended configuration is taken"


def quiet_by_now(bridge: Bridge) -> bool:
    """Wait until no request runs: an unstreamed answer is logged before it is sent."""
    model = fresh("good")
    assert CHAT.ask(bridge.address, model, stream=False).ended_well
    return not bridge.requests(model=model)


def test_a_killed_worker_ends_only_its_own_streams(evil: Evil) -> None:
    with (
        ThreadPoolExecutor(16) as threads,
        gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **LASTING) as bridge,
    ):
        models = [fresh("long") for _ in range(16)]
        asked = [threads.submit(outcome, bridge, model) for model in models]
        assert eventually(lambda: all(evil.asked[model] for model in models))
        victim = min(bridge.workers(), key=open_files)  # not the worker that may have all streams
        os.kill(victim, signal.SIGKILL)
        outcomes = [each.result() for each in asked]
        assert "whole" in outcomes
        assert set(outcomes) <= {"whole", "cut"}
        assert eventually(lambda: len(bridge.workers()) == 2 and victim not in bridge.workers())
        assert eventually(lambda: serves(f"{bridge.address}/readyz"))
        assert CHAT.ask(bridge.address, fresh("good"), stream=True).ended_well


@pytest.mark.parametrize("sign", [signal.SIGABRT, signal.SIGQUIT, signal.SIGTERM])
def test_a_worker_exits_on_a_signal_although_its_threads_are_idle(evil: Evil, sign: signal.Signals) -> None:
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **LASTING) as bridge:
        for _ in range(8):  # so that every worker has served a request
            assert CHAT.ask(bridge.address, fresh("good"), stream=False).ended_well
        told = set(bridge.workers())
        for worker in told:
            os.kill(worker, sign)
        assert eventually(lambda: len(bridge.workers()) == 2 and not told & set(bridge.workers()))
        assert CHAT.ask(bridge.address, fresh("good"), stream=True).ended_well


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def outcome(bridge: Bridge, model: str) -> str:
    try:
        return "whole" if CHAT.ask(bridge.address, model, stream=True).ended_well else "broken"
    except requests.RequestException:
        return "cut"


def test_a_worker_out_of_file_descriptors_finishes_its_running_streams(evil: Evil) -> None:
    environment = {**LASTING, "BRIDGE_SERVER__WORKERS": "1"}
    with (
        ThreadPoolExecutor() as threads,
        gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **environment) as bridge,
        requests.Session() as kept,
    ):
        asked = asked_together(threads, bridge, evil, "long")
        assert kept.get(f"{bridge.address}/healthz", timeout=20).ok
        (worker,) = bridge.workers()
        with no_free_file_descriptors(worker):
            late = threads.submit(CHAT.ask, bridge.address, fresh("good"), stream=True)
            assert eventually(lambda: "cannot accept another connection" in bridge.lines())
            path, body = CHAT.request(fresh("good"), stream=False)
            refused = kept.post(f"{bridge.address}{path}", json=body, timeout=20)
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10"), (
                "for want of a way upstream"
            )
            assert all(each.result().ended_well for each in asked)
        assert late.result().ended_well, "it waited until there was room"
        assert bridge.workers() == [worker]


def test_reloads_every_few_seconds_under_load_lose_no_stream(evil: Evil) -> None:
    done, answers = threading.Event(), []
    with (
        ThreadPoolExecutor(12) as threads,
        gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **LASTING) as bridge,
    ):
        running = [
            threads.submit(keep_asking, bridge, RAW_CLIENTS[number % len(RAW_CLIENTS)], answers, done)
            for number in range(12)
        ]
        for _ in range(4):
            time.sleep(2.5)
            bridge.signal(signal.SIGHUP)
        time.sleep(1)
        assert eventually(lambda: len(answers) > 2 * len(running))  # requests also ran between the reloads
        done.set()
        for each in running:
            each.result()
        assert all(answer.ended_well for answer in answers)
        assert eventually(lambda: len(bridge.requests()) == len(answers))
        assert {line["outcome"] for line in bridge.requests()} == {"completed"}


def keep_asking(bridge: Bridge, raw_client: RawClient, answers: list[Answer], done: threading.Event) -> None:
    for behaviour in cycle(("long", "slow-start", "good")):
        if done.is_set():
            return
        answers.append(raw_client.ask(bridge.address, fresh(behaviour), stream=True))
