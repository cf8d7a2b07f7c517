"""The command `gemini-bridge status` against a real bridge."""

from __future__ import annotations

import json

import pytest
from client_keys import ClientKeys
from command_line import attempt, command
from gunicorn_bridge import gunicorn_bridge

from bridge.settings.limits import Limits
from bridge.state.key_store import Rules


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def secret(state):
    return ClientKeys(state).add("alice", Rules(limits=Limits(tokens_per_day=2_000_000)))


@pytest.fixture(scope="module")
def address(state, secret):
    with gunicorn_bridge(BRIDGE_STATE_DIR=str(state)) as bridge:
        yield bridge.address


def test_it_prints_one_line(address, secret):
    told = command("status", "--url", address, BRIDGE_KEY=secret)
    assert told == "alice · today 0 requests, 0 tokens, 0.00 USD · 100% of 2,000,000 tokens per day left\n"


def test_it_prints_json(address, secret):
    told = json.loads(command("status", "--url", address, "--key", secret, "--json"))
    assert told["limits"][0]["left"] == 2_000_000


def test_a_wrong_key_says_what_to_do(address):
    done = attempt("status", "--url", address, "--key", "gbk_wrong")
    assert done.returncode == 1
    assert done.stdout.startswith("bridge: HTTP 401")
    assert "BRIDGE_KEY" in done.stderr


def test_a_bridge_that_is_not_there_is_one_short_line():
    done = attempt("status", "--url", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (1, "bridge: connection refused\n")
    assert "Start it" in done.stderr
