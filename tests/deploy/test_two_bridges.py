"""Two bridges behind a real nginx, with their state in one real PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import openai
import pytest
import requests
from certificates import needs_openssl
from gunicorn_bridge import free_port
from nginx_proxy import NGINX, alternating_proxy, written
from postgres_server import PostgresServer, postgres_server
from scripted_gemini import call_chunk, sse, text_chunk
from two_bridges import Company, kill, started, two_bridges
from waiting import eventually

pytestmark = [pytest.mark.skipif(NGINX is None, reason="nginx is not installed"), needs_openssl]

SIGNATURE = "c2lnbmVkLW9uLW9uZS1icmlkZ2U="


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture(scope="module")
def _company(database: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    with two_bridges(database, tmp_path_factory.mktemp("nginx")) as company:
        yield company


@pytest.fixture
def company(_company: Company) -> Company:
    _company.gemini.forget()
    return _company


@pytest.fixture
def mortal(database: PostgresServer, tmp_path: Path) -> Iterator[Company]:
    """Two bridges that the test may kill."""
    with two_bridges(database, tmp_path) as company:
        yield company


# --- nginx -------------------------------------------------------------------------------------------


def test_nginx_accepts_the_example_for_two_bridges(tmp_path: Path) -> None:
    line = written(tmp_path, free_port(), "http://127.0.0.1:41242", "http://127.0.0.1:41243")
    tried = subprocess.run([*line, "-t"], capture_output=True, text=True, timeout=30, check=False)
    assert tried.returncode == 0, tried.stderr
    assert "[emerg]" not in tried.stderr


def nodes(answers: list[requests.Response]) -> list[str]:
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    return [answer.headers["x-bridge-node"] for answer in answers]


@pytest.mark.parametrize(
    "header", ["x-claude-code-session-id", "session-id", "x-session-affinity", "x-session-id"]
)
def test_a_session_stays_on_one_bridge_and_sessions_are_spread(company: Company, header: str) -> None:
    ask = company.client().front

    def hello(session: str) -> requests.Response:
        return ask("GET", "/v1/models", headers={header: session})

    assert len(set(nodes([hello("same") for _ in range(5)]))) == 1
    assert set(nodes([hello(f"session-{number}") for number in range(20)])) == {"one", "two"}


def test_a_client_without_a_session_stays_on_the_bridge_of_its_key(company: Company) -> None:
    secret = company.client().front.secret
    by_header = [{"authorization": f"Bearer {secret}"}, {"x-api-key": secret}, {"x-goog-api-key": secret}]
    for headers in by_header:
        answers = [
            requests.get(
                f"{company.front.address}/v1/models",
                headers=headers,
                verify=company.front.certificate,
                timeout=30,
            )
            for _ in range(5)
        ]
        assert len(set(nodes(answers))) == 1


# --- shared state ------------------------------------------------------------------------------------


def test_a_key_works_on_both_bridges_and_is_revoked_on_both_in_two_seconds(company: Company) -> None:
    clients = company.client()
    for client in (clients.one, clients.two, clients.front):
        assert client.ask().status_code == 200
    company.command("key", "revoke", clients.key)
    revoked = time.monotonic()
    for client in (clients.one, clients.two, clients.front):
        assert eventually(lambda at=client: at.ask().status_code == 401, 3)
    assert time.monotonic() - revoked < 2.0


def test_a_conversation_wanders(company: Company) -> None:
    clients = company.client()
    first = clients.one.ask(input="My name is Ada").json()
    second = clients.two.ask(input="And now?", previous_response_id=first["id"])
    assert second.status_code == 200, second.text
    third = clients.one.ask(input="Last", previous_response_id=second.json()["id"])
    assert third.status_code == 200, third.text
    said = [
        part["text"] for content in company.gemini.asked[-1].body["contents"] for part in content["parts"]
    ]
    assert said == ["My name is Ada", "Hello.", "And now?", "Hello.", "Last"]
    assert clients.two.answer(first["id"]).json()["output"] == first["output"]


def test_a_background_answer_is_read_and_replayed_on_the_other_bridge(company: Company) -> None:
    clients = company.client()
    company.gemini.will_say([*sse(text_chunk("Slow ")), 0.5, *sse(text_chunk("work.", "STOP"))])
    begun = clients.one.ask(background=True, stream=True)
    answer_id = next(line for line in begun.iter_lines() if b'"id":"resp_' in line).split(b'"id":"')[1]
    answer_id = answer_id.partition(b'"')[0].decode()
    begun.close()
    resumed = clients.two.answer(answer_id, "?stream=true").text
    assert "Slow " in resumed
    assert "work." in resumed
    assert "response.completed" in resumed
    assert clients.two.answer(answer_id).json()["status"] == "completed"
    assert clients.one.answer(answer_id, "?stream=true").text == resumed


def test_the_openai_sdk_wanders(company: Company, tmp_path: Path) -> None:
    """Each of its requests reaches another bridge: a follow-up, and the polls of a background answer."""
    clients = company.client()
    bridges = [bridge.address for bridge in company.bridges.values()]
    with alternating_proxy(tmp_path, *bridges) as address:
        sdk = openai.OpenAI(base_url=f"{address}/v1", api_key=clients.front.secret, max_retries=0)
        first = sdk.responses.create(model="gpt-5", input="My name is Ada")
        second = sdk.responses.create(model="gpt-5", input="And now?", previous_response_id=first.id)
        assert second.previous_response_id == first.id
        company.gemini.will_say([*sse(text_chunk("Slow ")), 0.5, *sse(text_chunk("work.", "STOP"))])
        begun = sdk.responses.create(model="gpt-5", input="Work", background=True)
        seen = [begun.status]

        def polled() -> str:
            found = sdk.responses.retrieve(begun.id)
            seen.append(found.status)
            return found.output_text

        assert eventually(polled) == "Slow work."
    assert seen[-1] == "completed"
    assert set(seen) <= {"queued", "in_progress", "completed"}
    served = [bool(bridge.requests(key=clients.key)) for bridge in company.bridges.values()]
    assert served == [True, True]


def test_a_background_answer_is_cancelled_on_the_other_bridge(company: Company) -> None:
    clients = company.client()
    company.gemini.will_say([piece for _ in range(300) for piece in (*sse(text_chunk("more ")), 0.1)])
    made = clients.one.ask(background=True)
    answer_id = made.json()["id"]
    cancelled = clients.two("POST", f"/v1/responses/{answer_id}/cancel")
    assert cancelled.json()["status"] == "cancelled"
    work = {"request_id": made.headers["x-request-id"]}
    # One line for the request, and one for the work, which would take half a minute.
    assert eventually(lambda: len(company.bridges["one"].requests(**work)) == 2, 15), "the work goes on"
    assert clients.one.answer(answer_id).json()["status"] == "cancelled"


def test_a_thought_signature_wanders(company: Company) -> None:
    clients = company.client()
    call_id = uuid4().hex
    company.gemini.will_say(sse(call_chunk("look", {}, call_id, SIGNATURE, "STOP")))
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    messages: list[Any] = [{"role": "user", "content": "Look"}]
    body = {"model": "gpt-5", "messages": messages, "tools": [tool]}
    first = clients.one("POST", "/v1/chat/completions", json=body).json()
    (call,) = first["choices"][0]["message"]["tool_calls"]
    del call["extra_content"]  # as many clients do
    messages += [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "x"},
    ]
    assert clients.two("POST", "/v1/chat/completions", json=body).status_code == 200
    parts = [part for content in company.gemini.asked[-1].body["contents"] for part in content["parts"]]
    assert [part["thoughtSignature"] for part in parts if "functionCall" in part] == [SIGNATURE]


# --- a bridge that dies, and an upgrade --------------------------------------------------------------


@contextmanager
def load(ask: Callable[[str], requests.Response]) -> Iterator[list[tuple[float, int, str]]]:
    """Eight clients that send requests of many sessions without a pause. Yields when each request began, the
    status of its answer and the bridge that answered."""
    results: list[tuple[float, int, str]] = []
    over = threading.Event()

    def work(number: int) -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            began = time.monotonic()
            answer = ask(f"session-{number}-{turn}")
            results.append((began, answer.status_code, answer.headers.get("x-bridge-node", "")))

    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(work, number) for number in range(8)]
        try:
            yield results
        finally:
            over.set()
        for each in running:
            each.result()


def test_requests_go_on_when_a_bridge_is_killed(mortal: Company) -> None:
    ask = mortal.client().front.ask
    with load(ask) as results:
        assert eventually(lambda: {node for _, _, node in results} == {"one", "two"})
        kill(mortal.bridges["two"])
        killed = time.monotonic()
        assert eventually(lambda: sum(began > killed for began, _, _ in results) > 50)
    assert {(status, node) for began, status, node in results if began > killed} == {(200, "one")}
    assert {status for began, status, _ in results if began < killed} <= {200, 503}


def test_an_upgrade_one_by_one_loses_no_stream(mortal: Company) -> None:
    clients = mortal.client()
    sessions = {node: clients.session_of(node) for node in mortal.bridges}
    release = threading.Event()
    slow = [*sse(text_chunk("Begun. ")), lambda: release.wait(60), *sse(text_chunk("Done.", "STOP"))]

    def streamed(session: str) -> str:
        return clients.front.ask(session, stream=True).text

    def returned(session: str, node: str) -> bool:
        return clients.front.ask(session).headers["x-bridge-node"] == node

    def only(node: str, results: list[tuple[float, int, str]]) -> bool:
        return [answered for _, _, answered in results[-20:]] == [node] * 20

    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        for node, session in sessions.items():
            release.clear()
            before = len(mortal.gemini.asked)
            mortal.gemini.will_say(*[slow] * 4)
            running = [pool.submit(streamed, session) for _ in range(4)]
            assert eventually(lambda begun=before: len(mortal.gemini.asked) == begun + 4)
            old = mortal.bridges[node]
            old.signal(signal.SIGTERM)
            with load(clients.front.ask) as results:
                (other,) = set(mortal.bridges) - {node}
                # The old bridge serves the connections that nginx keeps open for two seconds.
                assert eventually(partial(only, other, results))
                release.set()
                texts = [each.result(60) for each in running]
            assert all("Done." in text and "response.completed" in text for text in texts)
            assert {status for _, status, _ in results} == {200}
            assert only(other, results)
            assert old.process.wait(60) == 0
            port = int(old.address.rpartition(":")[2])
            mortal.bridges[node] = started(stack, mortal.url, mortal.gemini, node, port)
            assert eventually(partial(returned, session, node))
