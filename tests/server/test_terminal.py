"""`gemini-bridge serve` at a terminal: the greeting, the log for people, a busy port, Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
from client_keys import ClientKeys
from command_line import attempt
from evil_gemini import Evil
from gunicorn_bridge import ROOT, clean_environment, free_port, gunicorn_bridge
from terminal import CTRL_C, Terminal, terminal
from waiting import eventually

from bridge.state.key_store import Rules
from tests.faults.conftest import BEHAVIOURS, fresh

SERVE = [sys.executable, "-c", "import sys; from bridge.cli import main; sys.exit(main(['serve']))"]
HELLO = {"messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@pytest.fixture
def evil() -> Iterator[Evil]:
    running = Evil(BEHAVIOURS)
    yield running
    running.close()


@pytest.fixture
def serving(port: int, tmp_path: Path) -> Iterator[Terminal]:
    environment = clean_environment() | {"BRIDGE_SERVER__PORT": str(port), "BRIDGE_STATE_DIR": str(tmp_path)}
    with terminal(SERVE, ROOT, environment) as shown:
        yield shown


def ask(address: str, **body: object) -> requests.Response:
    return requests.post(f"{address}/v1/chat/completions", json={**HELLO, **body}, timeout=30)


def test_the_greeting_is_short_and_complete(serving, address):
    assert serving.shows("Stop with Ctrl-C.")
    greeting = serving.shown.strip()
    assert greeting.startswith(f"Gemini Bridge on {address}")
    assert "Booting" not in greeting
    assert "authorization" not in greeting
    assert len(greeting.splitlines()) == 7


def test_the_greeting_of_a_bridge_with_keys_sends_a_key(tmp_path, serving):
    ClientKeys(tmp_path).add("alice", Rules())
    assert serving.shows("Stop with Ctrl-C.")
    assert '-H "authorization: Bearer $BRIDGE_KEY" \\\n' in serving.shown


def test_a_line_for_each_request(serving, address):
    assert serving.shows("Stop with Ctrl-C.")
    assert ask(address, model="gpt-5").ok
    assert serving.shows("POST   /v1/chat/completions  \033[32m200\033[0m  gpt-5 → gemini-pro-latest")
    ask(address)
    assert serving.shows("\033[33m400\033[0m")
    assert serving.shows("invalid_request")
    assert "{" not in serving.shown.partition("Stop with Ctrl-C.")[2]


def test_without_answers_ctrl_c_stops_at_once(serving):
    assert serving.shows("Stop with Ctrl-C.")
    serving.press(CTRL_C)
    assert serving.process.wait(20) == 0
    assert "aiting" not in serving.shown
    assert "Traceback" not in serving.shown


def test_ctrl_c_waits_for_answers_and_a_second_one_ends_them_well(evil, port, address, tmp_path):
    environment = clean_environment() | {
        "BRIDGE_SERVER__PORT": str(port),
        "BRIDGE_STATE_DIR": str(tmp_path),
        "GEMINI_API_KEY": "a-key",
        "GOOGLE_GEMINI_BASE_URL": evil.address,
    }
    with terminal(SERVE, ROOT, environment) as serving, ThreadPoolExecutor() as threads:
        assert serving.shows("Stop with Ctrl-C.")
        models = [fresh("never-ending") for _ in range(2)]
        endless = [threads.submit(ask, address, model=model, stream=True) for model in models]
        assert eventually(lambda: all(evil.asked[model] for model in models))
        serving.press(CTRL_C)
        assert serving.shows("waiting for 2 answers; press Ctrl-C again to stop now")
        serving.press(CTRL_C)
        ended = [each.result().text for each in endless]
        assert all(text.endswith("data: [DONE]\n\n") and "restarting" in text for text in ended)
        assert serving.process.wait(20) == 0
        assert "Traceback" not in serving.shown


def test_a_log_that_is_no_terminal_is_json():
    with gunicorn_bridge() as bridge:
        requests.get(f"{bridge.address}/v1/models", timeout=10)
        assert bridge.request(path="/v1/models")["status"] == 200


def test_text_can_be_chosen_for_a_file():
    with gunicorn_bridge(BRIDGE_LOG__FORMAT="text", NO_COLOR="1") as bridge:
        requests.get(f"{bridge.address}/v1/models", timeout=10)
        assert eventually(lambda: "GET    /v1/models  200" in bridge.lines())


def test_a_busy_port_names_the_process(tmp_path):
    port = free_port()
    with gunicorn_bridge(port=port) as bridge:
        done = attempt("serve", BRIDGE_SERVER__PORT=str(port), BRIDGE_STATE_DIR=str(tmp_path))
        owners = {bridge.process.pid, *bridge.workers()}
    assert done.returncode == 2
    assert f"127.0.0.1:{port} is in use by process " in done.stderr
    assert int(done.stderr.partition("by process ")[2].split()[0]) in owners
    assert "gunicorn" in done.stderr
    assert f"BRIDGE_SERVER__PORT={port + 1}" in done.stderr


def test_an_address_of_another_machine_is_refused(tmp_path):
    environment = {"BRIDGE_SERVER__HOST": "192.0.2.1", "BRIDGE_ACCESS__OPEN": "true"}
    done = attempt("serve", BRIDGE_STATE_DIR=str(tmp_path), **environment)
    assert (done.returncode, "does not have the address 192.0.2.1" in done.stderr) == (2, True)
