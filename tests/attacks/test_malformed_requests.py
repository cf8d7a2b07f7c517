"""Malformed requests over real sockets, directly and through nginx: each is refused or has exactly one
interpretation, and no part of it is parsed as another request."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from certificates import needs_openssl
from evil_gemini import Evil
from gunicorn_bridge import ROOT, Bridge, clean_environment, gunicorn_bridge
from nginx_proxy import NGINX, nginx_proxy
from wire import WireAnswer, read_answers

from tests.attacks.malformed_heads import CORPUS
from tests.attacks.malformed_requests import (
    GOOD,
    GOOD_KEY,
    MODEL_THAT_NOBODY_ASKS,
    NOT_SENT,
    SMUGGLED,
    SMUGGLED_ID,
    Case,
    get,
)

#: The last request on a connection that stays open: all earlier responses come before its own.
LAST_ID = "the-last-one"
LAST = get(b"/v1/nothing", b"Connection: close", b"X-Request-Id: " + LAST_ID.encode())
NO_MODELS = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"models":[]}'
WRONG_KEY = "gbk_" + "0" * 38
TIMEOUT = 30.0

Connect = Callable[[], socket.socket]


def each(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case.name.replace(" ", "-") for case in cases])


@pytest.fixture(scope="module")
def upstream() -> Iterator[Evil]:
    running = Evil({"list": lambda call: call.send(NO_MODELS)})
    yield running
    running.close()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def key(state: Path) -> str:
    """While a key is defined, the bridge refuses requests without it."""
    command = [sys.executable, "-c", "import sys; from bridge.cli import main; sys.exit(main())"]
    environment = clean_environment() | {"BRIDGE_STATE_DIR": str(state)}
    added = [*command, "key", "add", "attacker"]
    done = subprocess.run(added, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def attacked(upstream: Evil, state: Path, key: str) -> Iterator[Bridge]:
    with gunicorn_bridge(
        GEMINI_API_KEY="AIzaCanary0123456789abcdefghijklmnopqrs",
        GOOGLE_GEMINI_BASE_URL=upstream.address,
        BRIDGE_STATE_DIR=str(state),
        BRIDGE_UPSTREAM__ATTEMPTS="1",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def straight(attacked: Bridge) -> Connect:
    host, port = attacked.address.removeprefix("http://").split(":")
    return lambda: socket.create_connection((host, int(port)), timeout=TIMEOUT)


@pytest.fixture(scope="module")
def through_nginx(attacked: Bridge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    with nginx_proxy(tmp_path_factory.mktemp("nginx"), attacked.address) as front:
        context = ssl.create_default_context(cafile=str(front.certificate))
        port = int(front.address.rpartition(":")[2])

        def connect() -> socket.socket:
            plain = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
            return context.wrap_socket(plain, server_hostname="localhost")

        yield connect


def with_keys(wire: bytes, key: str, good: str) -> bytes:
    return wire.replace(b"%KEY%", key.encode()).replace(GOOD_KEY, good.encode())


def send(client: socket.socket, data: bytes) -> None:
    """Send as many bytes as the other end accepts: it may have refused the rest."""
    with suppress(ConnectionError, ssl.SSLError):
        client.sendall(data)


def close_sending_side(client: socket.socket) -> None:
    """Close below TLS: Python's TLS shutdown would close the reading side too."""
    with socket.socket(fileno=os.dup(client.fileno())) as below, suppress(OSError):
        below.shutdown(socket.SHUT_WR)


def answers_to(connect: Connect, case: Case, key: str, good: str) -> list[WireAnswer]:
    """Return all responses on one connection, except the response to the test's own last request."""
    with connect() as client:
        send(client, with_keys(case.wire, key, good))
        if case.ends:
            close_sending_side(client)
        answers, ended = read_answers(client, case.wanted)
        if not ended:
            send(client, with_keys(LAST, key, good))
            answers += read_answers(client, sys.maxsize)[0]
    return [each for each in answers if each.headers.get("x-request-id") != LAST_ID]


def check_responses(case: Case, answers: list[WireAnswer], allowed: list[set[str]]) -> None:
    statuses = [str(answer.status) for answer in answers]
    assert len(answers) <= len(allowed), f"{case.name}: {statuses} for {len(allowed)} requests"
    statuses += ["none"] * (len(allowed) - len(answers))
    for status, expected in zip(statuses, allowed, strict=True):
        assert status in expected, f"{case.name}: {statuses}"
    for answer in answers:
        assert answer.whole, case.name
        assert SMUGGLED_ID not in answer.headers.get("x-request-id", ""), case.name


def check_responses_without_key(case: Case, answers: list[WireAnswer], allowed: list[set[str]]) -> None:
    assert len(answers) <= len(allowed), case.name
    for answer in answers:
        refused = 400 <= answer.status < 500 or answer.status in (501, 505)
        assert refused or case.open_to_all, f"{case.name}: {answer.status} without a key"
        assert SMUGGLED_ID not in answer.headers.get("x-request-id", ""), case.name


@each(CORPUS)
def test_malformed_requests_sent_directly(case: Case, straight: Connect, key: str) -> None:
    allowed = case.allowed(nginx=False)
    check_responses(case, answers_to(straight, case, key, key), allowed)
    check_responses_without_key(case, answers_to(straight, case, WRONG_KEY, key), allowed)


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@needs_openssl
@each([case for case in CORPUS if case.nginx != NOT_SENT])
def test_malformed_requests_through_nginx(case: Case, through_nginx: Connect, key: str) -> None:
    allowed = case.allowed(nginx=True)
    check_responses(case, answers_to(through_nginx, case, key, key), allowed)
    check_responses_without_key(case, answers_to(through_nginx, case, WRONG_KEY, key), allowed)


def test_no_request_was_smuggled_and_the_bridge_still_serves(
    attacked: Bridge, upstream: Evil, straight: Connect, key: str
) -> None:
    good = Case("good", GOOD, "200")
    for _ in range(20):
        check_responses(good, answers_to(straight, good, key, key), good.allowed(nginx=False))
    assert upstream.asked["gemini-honest"] >= 20, "those who may ask were served"
    assert not upstream.asked[MODEL_THAT_NOBODY_ASKS]
    assert not [line for line in attacked.requests() if "smuggled" in f"{line['path']}{line['request_id']}"]
    assert "Traceback" not in attacked.lines()
    assert '"exception"' not in attacked.lines()


def test_a_smuggled_request_would_be_detected(
    attacked: Bridge, upstream: Evil, straight: Connect, key: str
) -> None:
    """The last test, because it does what the others check for: a smuggled request is served and logged."""
    smuggled = Case("smuggled", SMUGGLED, "200")
    answers = answers_to(straight, smuggled, key, key)
    assert [answer.headers["x-request-id"] for answer in answers] == [SMUGGLED_ID]
    assert upstream.asked[MODEL_THAT_NOBODY_ASKS] == 1
    assert "smuggled" in attacked.request(request_id=SMUGGLED_ID)["path"]
