"""Stops, reloads and killed workers: streams end with their own last event, and somebody always serves."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest
import requests
from askers import ASKERS, CHAT, Answer, Asker
from descriptors import no_more_descriptors
from evil_gemini import Evil
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge, serves
from waiting import eventually

from tests.faults.conftest import IMPATIENT, fresh

LASTING = {
    **IMPATIENT,
    "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "60",
    "BRIDGE_UPSTREAM__READ_TIMEOUT": "60",
    "BRIDGE_UPSTREAM__ANSWER_TIMEOUT": "120",
    "BRIDGE_SERVER__GRACEFUL_TIMEOUT": "30",
}
HASTY = {**LASTING, "BRIDGE_SERVER__GRACEFUL_TIMEOUT": "5"}


def asked_together(
    threads: ThreadPoolExecutor, bridge: Bridge, evil: Evil, deed: str
) -> list[Future[Answer]]:
    """Every protocol at once; returns when all of them have reached the upstream."""
    models = [fresh(deed) for _ in ASKERS]
    asked = [
        threads.submit(asker.ask, bridge.address, model, stream=True)
        for asker, model in zip(ASKERS, models, strict=True)
    ]
    assert eventually(lambda: all(evil.asked[model] for model in models))
    time.sleep(0.3)
    return asked


def test_a_stop_lets_streams_finish(evil: Evil) -> None:
    with (
        ThreadPoolExecutor() as threads,
        gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **LASTING) as bridge,
    ):
        asked = asked_together(threads, bridge, evil, "long")
        bridge.signal(signal.SIGTERM)
        answers = [each.result() for each in asked]
        assert all(answer.ended_well and b"done." in answer.content for answer in answers)
        assert bridge.process.wait(40) == 0


@pytest.mark.parametrize("deed", ["silent", "never-ending"])
def test_a_stream_that_cannot_finish_in_time_gets_its_last_event(evil: Evil, deed: str) -> None:
    with (
        ThreadPoolExecutor() as threads,
        gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **HASTY) as bridge,
    ):
        asked = asked_together(threads, bridge, evil, deed)
        bridge.signal(signal.SIGTERM)
        answers = [each.result() for each in asked]
        assert all(answer.status == 200 and answer.ended_legally and answer.failed for answer in answers)
        assert bridge.process.wait(40) == 0
        assert {line["error"] for line in bridge.requests()} == {"shutting_down"}


def test_a_reload_lets_streams_finish_and_new_workers_serve_meanwhile(evil: Evil) -> None:
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
    """The line of an answer that is not streamed is written before it."""
    model = fresh("good")
    assert CHAT.ask(bridge.address, model, stream=False).ended_well
    return not bridge.requests(model=model)


def test_a_killed_worker_takes_only_its_own_streams_with_it(evil: Evil) -> None:
    with (
        ThreadPoolExecutor(16) as threads,
        gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **LASTING) as bridge,
    ):
        models = [fresh("long") for _ in range(16)]
        asked = [threads.submit(outcome, bridge, model) for model in models]
        assert eventually(lambda: all(evil.asked[model] for model in models))
        victim = min(bridge.workers(), key=open_files)  # if one has all the streams, it is not that one
        os.kill(victim, signal.SIGKILL)
        outcomes = [each.result() for each in asked]
        assert "whole" in outcomes
        assert set(outcomes) <= {"whole", "cut"}
        assert eventually(lambda: len(bridge.workers()) == 2 and victim not in bridge.workers())
        assert eventually(lambda: serves(f"{bridge.address}/readyz"))
        assert CHAT.ask(bridge.address, fresh("good"), stream=True).ended_well


@pytest.mark.parametrize("sign", [signal.SIGABRT, signal.SIGQUIT, signal.SIGTERM])
def test_a_worker_that_is_told_to_end_does_so_although_its_threads_wait_for_more(
    evil: Evil, sign: signal.Signals
) -> None:
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **LASTING) as bridge:
        for _ in range(8):  # so that each has had something to do
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


def test_a_worker_without_room_for_more_connections_finishes_what_it_has(evil: Evil) -> None:
    environment = {**LASTING, "BRIDGE_SERVER__WORKERS": "1"}
    with (
        ThreadPoolExecutor() as threads,
        gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **environment) as bridge,
        requests.Session() as kept,
    ):
        asked = asked_together(threads, bridge, evil, "long")
        assert kept.get(f"{bridge.address}/healthz", timeout=20).ok
        (worker,) = bridge.workers()
        with no_more_descriptors(worker):
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
            threads.submit(keep_asking, bridge, ASKERS[number % len(ASKERS)], answers, done)
            for number in range(12)
        ]
        for _ in range(4):
            time.sleep(2.5)
            bridge.signal(signal.SIGHUP)
        time.sleep(1)
        assert eventually(lambda: len(answers) > 2 * len(running))  # they asked between the reloads, too
        done.set()
        for each in running:
            each.result()
        assert all(answer.ended_well for answer in answers)
        assert eventually(lambda: len(bridge.requests()) == len(answers))
        assert {line["outcome"] for line in bridge.requests()} == {"completed"}


def keep_asking(bridge: Bridge, asker: Asker, answers: list[Answer], done: threading.Event) -> None:
    for deed in cycle(("long", "slow-start", "good")):
        if done.is_set():
            return
        answers.append(asker.ask(bridge.address, fresh(deed), stream=True))
