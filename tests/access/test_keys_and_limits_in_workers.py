"""Keys and limits in production form: two real gunicorn workers, the real command line, real sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import anthropic
import openai
import pytest
import requests
from client_keys import KEYS_FILE
from gunicorn_bridge import ROOT, Bridge, clean_environment, free_port, gunicorn_bridge
from scripted_gemini import ScriptedGemini, sse, text_chunk
from waiting import eventually

from bridge.state.sqlite.ledger import DEAD_AFTER

HELLO = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}
#: Changes reach every worker within this time.
SOON = 2.0


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def bridge(_gemini: ScriptedGemini, state: Path) -> Iterator[Bridge]:
    with gunicorn_bridge(
        GEMINI_API_KEY="upstream-key",
        GOOGLE_GEMINI_BASE_URL=_gemini.address,
        BRIDGE_STATE_DIR=str(state),
        BRIDGE_SERVER__HEARTBEAT="0.3",
    ) as running:
        yield running


Cli = Callable[..., str]


@pytest.fixture(scope="module")
def key(state: Path) -> Cli:
    """Run `gemini-bridge key …` in its own process, and return its output."""

    def run(*arguments: str) -> str:
        command = [sys.executable, "-c", "import sys; from bridge.cli import main; sys.exit(main())", "key"]
        environment = clean_environment() | {"BRIDGE_STATE_DIR": str(state)}
        done = subprocess.run(
            [*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    return run


def post(bridge: Bridge, secret: str | None, body: dict = HELLO, **options):
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return requests.post(
        f"{bridge.address}/v1/chat/completions", json=body, headers=headers, timeout=60, **options
    )


def statuses(bridge: Bridge, secret: str | None, number: int = 16) -> set[int]:
    """Return the statuses of many requests on separate connections, so that every worker gets some."""
    with ThreadPoolExecutor(8) as pool:
        return set(pool.map(lambda _: post(bridge, secret).status_code, range(number)))


def test_a_key_is_created_changed_and_revoked_without_a_restart(
    bridge: Bridge, gemini: ScriptedGemini, key: Cli
) -> None:
    assert "open to everybody on this machine: no key is defined" in bridge.lines()
    assert '"message":"access: open to everybody' in bridge.lines()
    assert statuses(bridge, None) == statuses(bridge, "any") == {200}

    first = key("add", "alice", "--owner", "Alice")
    time.sleep(SOON)
    assert statuses(bridge, None) == statuses(bridge, "any") == {401}
    assert statuses(bridge, first) == {200}

    second = key("rotate", "alice", "--grace", "1h")
    time.sleep(SOON)
    assert statuses(bridge, first) == statuses(bridge, second) == {200}
    third = key("rotate", "alice", "--grace", "0")
    time.sleep(SOON)
    assert statuses(bridge, first) == statuses(bridge, second) == {401}
    assert statuses(bridge, third) == {200}

    key("set", "alice", "--models", "gemini-*flash*")
    time.sleep(SOON)
    assert statuses(bridge, third) == {403}
    key("set", "alice", "--models", "*", "--from", "10.0.0.0/8")
    time.sleep(SOON)
    assert statuses(bridge, third) == {401}
    key("set", "alice", "--from", "127.0.0.1")
    time.sleep(SOON)
    assert statuses(bridge, third) == {200}

    key("revoke", "alice")
    time.sleep(SOON)
    assert statuses(bridge, third) == statuses(bridge, None) == {401}
    assert requests.get(f"{bridge.address}/readyz", timeout=10).status_code == 200


def test_without_a_valid_key_a_malformed_body_gets_one_response(bridge: Bridge, key: Cli) -> None:
    key("add", "carol")
    assert eventually(lambda: statuses(bridge, None) == {401})
    host, port = bridge.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head + b"nonsense\r\n{}\r\n0\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.fixture(scope="module")
def bob(bridge: Bridge, key: Cli) -> str:
    secret = key("add", "bob")
    assert eventually(lambda: statuses(bridge, secret) == {200})
    return secret


# --- injection, enumeration, leaks -------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        b"Authorization: Bearer ' OR 1=1 --",
        b"Authorization: Bearer \xff\xfe\x80",
        b"Authorization: Bearer a\x00b",
        b"Authorization: Bearer a\r\nX-Api-Key: b",
        b"Authorization: Bearer a\nX-Request-Id: forged",
        b"Authorization: Bearer a\r\n folded",
        b"Authorization:",
        b"Authorization: Bearer",
        b"X-Api-Key: " + b"k" * 8000,
        b"X-Api-Key: " + b"k" * 100_000,
        b"X-Api-Key: a\r\nX-Api-Key: b",
        b"x-goog-api-key: \xc3\xbc",
        b"X_Api_Key: underscore",
    ],
)
def test_no_malformed_header_authenticates_or_crashes_the_worker(
    bridge: Bridge, bob: str, header: bytes
) -> None:
    body = json.dumps(HELLO).encode()
    host = urlsplit(bridge.address)
    with socket.create_connection((host.hostname, host.port), timeout=20) as sock:
        sock.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: bridge\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n%b\r\n\r\n%b" % (len(body), header, body)
        )
        answer = b""
        try:
            while piece := sock.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    status = answer.split(b" ", 2)[1] if answer else b"closed"
    assert status in (b"400", b"401", b"431", b"closed"), answer[:200]
    assert b"forged" not in answer.split(b"\r\n\r\n")[0]
    assert statuses(bridge, bob, 4) == {200}


def test_a_key_in_the_query_authenticates_and_is_never_logged(bridge: Bridge, bob: str) -> None:
    answer = requests.post(f"{bridge.address}/v1/chat/completions?key={bob}", json=HELLO, timeout=60)
    assert answer.status_code == 200
    lost = requests.post(f"{bridge.address}/v1/chat/completionz?key={bob}", json=HELLO, timeout=60)
    assert (lost.status_code, bob in lost.text) == (404, False)
    assert bob not in bridge.lines()


def test_all_wrong_keys_take_the_same_time(bridge: Bridge, bob: str) -> None:
    """A lookup by digest has no partial match, so this test finds only large differences."""

    def asked(session: requests.Session, secret: str) -> float:
        headers = {"Authorization": f"Bearer {secret}"}
        url = f"{bridge.address}/v1/chat/completions"
        answer = session.post(url, json=HELLO, headers=headers, timeout=60)
        assert answer.status_code == 401
        return answer.elapsed.total_seconds()

    nearly, wrong = bob[:-1] + ("A" if bob[-1] != "A" else "B"), "x" * len(bob)
    with requests.Session() as session:  # alternate, so that a busy machine affects both alike
        times = [(asked(session, nearly), asked(session, wrong)) for _ in range(60)]
    quick = [sorted(each)[len(times) // 4] for each in zip(*times, strict=True)]
    assert abs(quick[0] - quick[1]) < 0.01


# --- limits ------------------------------------------------------------------------------------------


def test_two_workers_share_a_limit_exactly(bridge: Bridge, bob: str, key: Cli) -> None:
    secret = key("add", "limited", "--rpm", "10")
    wait_until_known(bridge, secret)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: post(bridge, secret), range(40)))
    assert Counter(answer.status_code for answer in answers) == {200: 10, 429: 30}
    for answer in answers:
        assert answer.headers["x-ratelimit-limit-requests"] == "10"
    remaining = sorted(int(answer.headers["x-ratelimit-remaining-requests"]) for answer in answers)
    assert remaining == [0] * 31 + list(range(1, 10))
    assert statuses(bridge, bob, 4) == {200}


def wait_until_known(bridge: Bridge, secret: str) -> None:
    """Poll with uncounted requests until one worker knows the key; wait two seconds for the others."""
    headers = {"x-api-key": secret}
    assert eventually(lambda: requests.get(f"{bridge.address}/v1/models", headers=headers, timeout=30).ok)
    time.sleep(2.5)


def test_usage_is_visible_to_the_other_worker(bridge: Bridge, bob: str, gemini, key: Cli) -> None:
    secret = key("add", "thrifty", "--tokens-per-day", "1000")
    wait_until_known(bridge, secret)
    gemini.will_say(sse(text_chunk("Much.", "STOP", totalTokenCount=1000)))
    with post(bridge, secret, {**HELLO, "stream": True}, stream=True) as answer:
        assert answer.content.endswith(b"[DONE]\n\n")
    assert eventually(lambda: statuses(bridge, secret, 8) == {429})


def test_slots_of_a_killed_worker_are_released(bridge: Bridge, bob: str, gemini, key: Cli) -> None:
    secret = key("add", "streamer", "--streams", "1")
    wait_until_known(bridge, secret)
    gemini.will_say([*sse(text_chunk("Wait ")), 100.0, *sse(text_chunk("…", "STOP"))])
    with post(bridge, secret, {**HELLO, "stream": True}, stream=True) as running:
        pieces = running.iter_content(10)  # a dropped iterator would end the connection
        next(pieces)
        assert statuses(bridge, secret, 8) == {429}
        time.sleep(DEAD_AFTER + 2)
        assert statuses(bridge, secret, 8) == {429}, "it is still on its way"
        for pid in bridge.workers():
            os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: 200 in codes_now(bridge, secret), DEAD_AFTER + 30, every=0.2)


def codes_now(bridge: Bridge, secret: str) -> set[int]:
    try:
        return {post(bridge, secret).status_code}
    except requests.ConnectionError:  # the workers are being replaced
        return set()


# --- the vendors' own SDKs ---------------------------------------------------------------------------


@pytest.fixture
def openai_client(bridge: Bridge):
    clients = []

    def make(secret: str) -> openai.OpenAI:
        clients.append(openai.OpenAI(base_url=f"{bridge.address}/v1", api_key=secret, max_retries=0))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def anthropic_client(bridge: Bridge):
    clients = []

    def make(**credentials: str) -> anthropic.Anthropic:
        clients.append(anthropic.Anthropic(base_url=bridge.address, max_retries=0, **credentials))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def test_the_openai_sdk_raises_the_same_errors_as_with_openai(
    bridge, bob, key, gemini, openai_client
) -> None:
    secret = key("add", "openai", "--rpm", "1", "--models", "gpt-5")
    wait_until_known(bridge, secret)
    with pytest.raises(openai.AuthenticationError) as refused:
        openai_client("wrong").chat.completions.create(**HELLO)
    assert refused.value.code == "invalid_api_key"
    client = openai_client(secret)
    with pytest.raises(openai.PermissionDeniedError) as forbidden:
        client.responses.create(model="gemini-3.8-flash", input="Hello")
    assert "gemini-3.8-flash" in forbidden.value.message
    raw = client.chat.completions.with_raw_response.create(**HELLO)
    assert raw.headers["x-ratelimit-remaining-requests"] == "0"
    with pytest.raises(openai.RateLimitError) as limited:
        client.responses.create(model="gpt-5", input="Hello", stream=True)
    assert "1 request per minute for the key 'openai'" in limited.value.message
    assert 0 < int(limited.value.response.headers["retry-after"]) <= 61
    assert "gpt-5" in [model.id for model in client.models.list()]
    assert "gemini-3.8-flash" not in [model.id for model in client.models.list()]


@pytest.mark.parametrize("credential", ["api_key", "auth_token"])
def test_the_anthropic_sdk_raises_the_same_errors_as_with_anthropic(
    bridge, bob, key, gemini, anthropic_client, credential, monkeypatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    secret = key("add", f"anthropic-{credential}", "--rpm", "1", "--models", "claude-opus-4-8")
    wait_until_known(bridge, secret)
    ask = {"max_tokens": 100, "messages": HELLO["messages"]}
    with pytest.raises(anthropic.AuthenticationError):
        anthropic_client(**{credential: "wrong"}).messages.create(model="claude-opus-4-8", **ask)
    client = anthropic_client(**{credential: secret})
    with pytest.raises(anthropic.BadRequestError, match="may not use the model"):
        client.messages.create(model="gemini-3.8-flash", **ask)
    raw = client.messages.with_raw_response.create(model="claude-opus-4-8", **ask)
    assert raw.headers["anthropic-ratelimit-requests-remaining"] == "0"
    with pytest.raises(anthropic.RateLimitError) as limited:
        client.messages.create(model="claude-opus-4-8", **ask)
    assert limited.value.type == "rate_limit_error"
    assert 0 < int(limited.value.response.headers["retry-after"]) <= 61


# --- files that cannot be used -----------------------------------------------------------------------


def test_locked_files_do_not_stop_requests(bridge: Bridge, bob: str, key: Cli, state: Path) -> None:
    secret = key("add", "patient", "--rpm", "1000", "--streams", "50", "--tokens-per-day", "1000000")
    wait_until_known(bridge, secret)
    assert statuses(bridge, secret, 8) == {200}
    with (
        closing(sqlite3.connect(state / KEYS_FILE, isolation_level=None)) as keys,
        closing(sqlite3.connect(state / "limits.sqlite3", isolation_level=None)) as limits,
    ):
        keys.execute("BEGIN EXCLUSIVE")
        limits.execute("BEGIN EXCLUSIVE")
        end = time.monotonic() + 7
        slowest = 0.0
        while time.monotonic() < end:
            began = time.monotonic()
            assert statuses(bridge, secret, 16) == {200}
            assert statuses(bridge, bob, 4) == {200}
            slowest = max(slowest, time.monotonic() - began)
        keys.execute("ROLLBACK")
        limits.execute("ROLLBACK")
    assert slowest < 5
    assert "limits not enforced" in bridge.lines()
    assert "keys cannot be read" in bridge.lines()


def test_no_key_was_ever_written_to_the_log(bridge: Bridge, bob: str) -> None:
    assert '"key":"bob"' in bridge.lines()
    assert "gbk_" not in bridge.lines()


# --- at the start ------------------------------------------------------------------------------------


def start(state: Path, **environment: str) -> subprocess.Popen[str]:
    env = clean_environment() | {
        "CODER_AGENT_PORT": str(free_port()),
        "BRIDGE_STATE_DIR": str(state),
        **environment,
    }
    command = [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "app:app"]
    return subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)


def test_on_a_public_address_the_bridge_does_not_start_without_keys(tmp_path: Path) -> None:
    started = start(tmp_path, BRIDGE_SERVER__HOST="0.0.0.0")
    _, told = started.communicate(timeout=60)
    assert started.returncode == 2
    assert told.count("\n") == 1
    assert told.startswith("gemini-bridge: server.host is 0.0.0.0")
    assert "gemini-bridge key add NAME" in told
    assert "access.open = true" in told


@pytest.mark.parametrize(
    ("environment", "arguments", "status", "said"),
    [
        ({"BRIDGE_ACCESS__OPEN": "true"}, [], 200, "open to everybody who can reach it"),
        ({}, ["add", "alice"], 401, "a key is needed; 1 defined"),
    ],
)
def test_on_a_public_address_the_bridge_starts_with_keys_or_open_access(
    tmp_path: Path, environment: dict[str, str], arguments: list[str], status: int, said: str
) -> None:
    if arguments:
        command = [sys.executable, "-c", "import sys; from bridge.cli import main; sys.exit(main())", "key"]
        env = clean_environment() | {"BRIDGE_STATE_DIR": str(tmp_path)}
        subprocess.run([*command, *arguments], cwd=ROOT, env=env, check=True, capture_output=True)
    with gunicorn_bridge(
        BRIDGE_SERVER__HOST="0.0.0.0", BRIDGE_STATE_DIR=str(tmp_path), **environment
    ) as running:
        assert post(running, None).status_code == status
        assert said in running.lines()
