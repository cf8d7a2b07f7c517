"""The table "When the database is away" of docs/RELIABILITY.md: each test is a column, each outage a row."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
import requests
from gunicorn_bridge import gunicorn_bridge
from outages import OUTAGES, SharedDatabase
from postgres_server import postgres_server
from scripted_gemini import Reply, ScriptedGemini, sse, text_chunk
from service_on_postgres import Service, bearer, complete
from tcp_proxy import TcpProxy
from waiting import eventually

from bridge.access.key_format import new_secret
from bridge.state.postgres.migrations import upgrade

#: A call of the store may take a quarter of a second; a busy machine may wake a thread late.
LONGEST_GAP = 1.5


@pytest.fixture(scope="module", params=OUTAGES)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    gemini = ScriptedGemini()
    with postgres_server() as server:
        url = server.new_database()
        upgrade(url)
        database = SharedDatabase(server, TcpProxy(server.port), url.rpartition("/")[2])
        with gunicorn_bridge(
            GEMINI_API_KEY="AIzaCanary0123456789abcdefghijklmnopqrs",
            GOOGLE_GEMINI_BASE_URL=gemini.address,
            BRIDGE_STATE_URL=database.url,
            BRIDGE_SERVER__WORKERS="2",
        ) as bridge:
            yield Service(bridge, gemini, database, OUTAGES[request.param])
        database.proxy.close()
    gemini.close()


@pytest.fixture(autouse=True)
def answering(service: Service) -> None:
    service.gemini.forget()
    service.gemini.will_answer(lambda _asked: complete())


def test_running_streams_do_not_notice(service: Service) -> None:
    secret = service.key("streams", streams=10, tokens_per_day=1_000_000)
    body = [part for number in range(20) for part in (*sse(text_chunk(f"{number} ")), 0.15)]
    service.gemini.will_say(Reply([*body, *sse(text_chunk("end", "STOP"))]))
    answer = service.ask(secret, stream=True)
    lines, arrived = answer.iter_lines(), [time.monotonic()]
    for line in lines:
        if b"output_text.delta" in line:
            break
    with service.away():
        text = b""
        for line in lines:
            text += line
            arrived.append(time.monotonic())
    assert b"response.completed" in text
    assert b"19 " in text
    gaps = [after - before for before, after in pairwise(arrived[1:])]
    assert max(gaps) < LONGEST_GAP
    assert eventually(service.is_back)


def test_known_keys_go_on_and_unknown_ones_are_told_to_retry(service: Service) -> None:
    secret, revoked = service.key("known"), service.key("to be revoked")
    with service.away():
        assert [service.ask(secret).status_code for _ in range(6)] == [200] * 6
        expected = 401 if service.outage.readable else 503

        def strangers() -> list[requests.Response]:
            """All of them, once both workers have noticed the outage."""
            found = [service.ask(new_secret()) for _ in range(8)]
            return found if {each.status_code for each in found} == {expected} else []

        assert (refused := eventually(strangers))
        if expected == 503:
            assert int(refused[0].headers["retry-after"]) > 0
            assert "cannot read its keys" in refused[0].json()["error"]["message"]
    service.database.run(
        "UPDATE gemini_bridge.key SET revoked = 1 WHERE name = 'to be revoked';"
        "UPDATE gemini_bridge.change SET number = number + 1"
    )
    assert eventually(lambda: all(service.models(revoked).status_code == 401 for _ in range(8)), 15)
    assert eventually(lambda: service.models(new_secret()).status_code == 401)
    assert service.models(secret).ok


def test_each_bridge_admits_its_share_and_books_it_once(service: Service) -> None:
    secret = service.key("limited", requests_per_minute=8, tokens_per_day=1000)
    others = "INSERT INTO gemini_bridge.bridge_node VALUES ('another', extract(epoch FROM now()) + 9)"
    service.database.run(f"{others} ON CONFLICT (name) DO UPDATE SET seen = excluded.seen")
    alive = service.bridge.state / "bridges.alive"
    assert eventually(lambda: alive.exists() and alive.read_text() == "2")
    assert service.ask(secret).status_code == 200
    with service.away():
        codes = [service.ask(secret).status_code for _ in range(7)]
        assert codes == [200] * 4 + [429] * 3, "half of eight, counted anew"
        refused = service.ask(secret)
        assert "4 requests per minute" in refused.json()["error"]["message"]
        assert "on this bridge while its database is away" in refused.json()["error"]["message"]
    day = "SELECT tokens FROM gemini_bridge.day JOIN gemini_bridge.key ON subject = 'key:' || id"
    booked = f"{day} WHERE name = 'limited'"
    assert eventually(lambda: service.count(booked) >= 5 * 7)
    assert eventually(service.is_back)
    assert service.count(booked) == 5 * 7, "once"
    notes = [line.get("notes", {}) for line in service.bridge.requests(key="limited", method="POST")]
    assert len([each for each in notes if "limits_local" in each]) == 8


def test_usage_waits_and_arrives_once_although_a_worker_is_killed(service: Service) -> None:
    secret = service.key("used")
    with service.away():
        assert [service.ask(secret).status_code for _ in range(6)] == [200] * 6
        assert eventually(lambda: len(service.bridge.requests(key="used", protocol="openai_responses")) == 6)
        assert service.metric("usage_rows_waiting") >= 6
        killed = service.bridge.workers()[0]
        os.kill(killed, signal.SIGKILL)
        assert eventually(lambda: len(set(service.bridge.workers()) - {killed}) == 2)
        assert eventually(lambda: service.ask(secret).status_code == 200), "the new worker knows the keys"
        assert [service.ask(secret).status_code for _ in range(6)] == [200] * 6
    assert eventually(service.is_back)
    logged = len(service.bridge.requests(key="used", protocol="openai_responses", status=200))
    rows = "SELECT count(*) FROM gemini_bridge.request WHERE key = 'used' AND status = 200"
    days = "SELECT sum(requests) FROM gemini_bridge.usage_day WHERE key = 'used'"
    everything = "SELECT count(*) FROM gemini_bridge.request WHERE key = 'used'"
    assert service.count(rows) == logged >= 13
    assert service.count(days) == service.count(everything)
    assert service.metric("accounts_rows_dropped_total") == 0


def _lost(answer: requests.Response) -> bool:
    return "answer_not_stored" in answer.headers.get("x-bridge-losses", "")


def test_stored_answers_are_unavailable_and_new_ones_say_that_they_are_not_stored(service: Service) -> None:
    secret = service.key("storing")
    first = service.ask(secret).json()["id"]
    address = f"{service.bridge.address}/v1/responses/{first}"
    with service.away():
        assert eventually(lambda: all(_lost(service.ask(secret)) for _ in range(8))), "both workers"
        new = service.ask(secret)
        assert new.status_code == 200
        assert new.json()["output"]
        assert new.headers["x-bridge-losses"] == "answer_not_stored"
        if not service.outage.readable:
            for refused in (
                service.ask(secret, previous_response_id=first),
                requests.get(address, headers=bearer(secret), timeout=30),
            ):
                assert refused.status_code == 503
                assert refused.headers["retry-after"] == "5"
                assert "cannot reach its stored answers" in refused.json()["error"]["message"]
        in_background = service.ask(secret, background=True)
        assert in_background.status_code == (404 if service.outage.readable else 503)
        unstored = service.ask(secret, store=False)
        assert "x-bridge-losses" not in unstored.headers
    assert eventually(service.is_back)
    assert eventually(lambda: service.ask(secret, previous_response_id=first).status_code == 200)
    assert eventually(lambda: not any(_lost(service.ask(secret)) for _ in range(8)))


def test_everything_heals_and_the_log_has_one_warning_for_each_worker(service: Service) -> None:
    secret = service.key("healing", requests_per_minute=1000)
    warning = "the database is not used until it answers again"
    before = len(service.bridge.log_entries(message=warning))
    lost = service.metric("state_outages_total")
    with service.away():
        assert [service.ask(secret).status_code for _ in range(8)] == [200] * 8
        assert requests.get(f"{service.bridge.address}/readyz", timeout=5).status_code == 200
        expected = 0 if service.outage.readable else 2
        assert eventually(lambda: service.metric("state_database_away") == expected)
        took = time.monotonic()
        service.ask(secret)
        assert time.monotonic() - took < LONGEST_GAP
        time.sleep(3)
    assert eventually(service.is_back)
    # On a busy machine the database may be slow enough to count as away once more.
    outages = service.metric("state_outages_total") - lost
    assert outages >= expected
    assert expected <= len(service.bridge.log_entries(message=warning)) - before <= outages
    assert service.metric("state_connections") >= 2
    errors = service.bridge.log_entries(level="error")
    assert not [line for line in errors if line["logger"] != "gunicorn.error"], (
        "gunicorn names killed workers"
    )
