"""The real bridge under gunicorn with its state in PostgreSQL, and the command line beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import command_line
import pytest
import requests
from gunicorn_bridge import Bridge, gunicorn_bridge
from pgbouncer import needs_pgbouncer
from postgres_server import PASSWORD
from waiting import eventually

from tests.state.conftest import PostgresBackend

DIRECT = pytest.mark.parametrize("postgres", ["direct"], indirect=True)


@pytest.fixture(params=["direct", pytest.param("through PgBouncer", marks=needs_pgbouncer)])
def postgres(request: pytest.FixtureRequest, postgres: PostgresBackend) -> PostgresBackend:
    """The command line and the bridge take the same way to the database."""
    return postgres if request.param == "direct" else postgres.through(request.getfixturevalue("bouncer"))


@pytest.fixture
def bridge(postgres) -> Iterator[Bridge]:
    with gunicorn_bridge(BRIDGE_STATE_URL=postgres.url) as running:
        yield running


def command(postgres, *arguments: str) -> str:
    places = {"BRIDGE_STATE_URL": postgres.url, "BRIDGE_STATE_DIR": str(postgres.folder)}
    return command_line.command(*arguments, **places)


def ask(bridge: Bridge, secret: str, **fields: Any) -> requests.Response:
    return requests.post(
        f"{bridge.address}/v1/responses",
        headers={"authorization": f"Bearer {secret}"},
        json={"model": "gpt-5", "input": "Hello", **fields},
        timeout=30,
    )


def local_files(bridge: Bridge) -> set[str]:
    """The files for the time in which the database is away."""
    return {path.name for path in bridge.state.glob("*.sqlite3")}


def test_keys_limits_answers_and_usage_are_in_the_database(postgres, bridge: Bridge) -> None:
    secret = command(postgres, "key", "add", "alice", "--rpm", "3").strip()
    assert eventually(lambda: ask(bridge, "wrong").status_code == 401)
    first = ask(bridge, secret)
    assert first.headers["x-ratelimit-remaining-requests"] == "2"
    assert ask(bridge, secret, previous_response_id=first.json()["id"]).status_code == 200
    assert ask(bridge, secret).status_code == 200
    refused = ask(bridge, secret)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 61
    assert eventually(lambda: '"requests": 3' in command(postgres, "usage", "--by", "key", "--json"))
    command(postgres, "key", "revoke", "alice")
    assert eventually(lambda: ask(bridge, secret).status_code == 401, 2)
    assert local_files(bridge) == {"usage_waiting.sqlite3", "limits_waiting.sqlite3"}
    assert PASSWORD not in bridge.lines()
    assert not bridge.log_entries(level="warning")
    assert not bridge.log_entries(level="error")


def test_conversations_and_events_are_in_the_database(postgres, bridge: Bridge) -> None:
    secret = command(postgres, "key", "add", "alice").strip()
    assert eventually(lambda: ask(bridge, "wrong").status_code == 401)
    headers = {"authorization": f"Bearer {secret}"}
    conversations = f"{bridge.address}/v1/conversations"
    talk = requests.post(conversations, headers=headers, json={}, timeout=30).json()["id"]
    assert ask(bridge, secret, conversation=talk).status_code == 200
    items = requests.get(f"{conversations}/{talk}/items", headers=headers, timeout=30).json()["data"]
    assert {item["role"] for item in items if item["type"] == "message"} == {"user", "assistant"}
    streamed = ask(bridge, secret, background=True, stream=True).text
    (found,) = postgres.database().run("SELECT DISTINCT answer FROM gemini_bridge.event_batch")
    address = f"{bridge.address}/v1/responses/{found[0]}?stream=true"
    assert "response.completed" in streamed
    assert requests.get(address, headers=headers, timeout=30).text == streamed
    assert local_files(bridge) <= {"usage_waiting.sqlite3", "limits_waiting.sqlite3"}
    assert not bridge.log_entries(level="warning")
    assert not bridge.log_entries(level="error")


@DIRECT
def test_a_stopped_bridge_leaves_no_connection(postgres) -> None:
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE %s"
    database = postgres.database()
    with gunicorn_bridge(BRIDGE_STATE_URL=postgres.url) as bridge:
        assert requests.get(f"{bridge.address}/v1/models", timeout=30).ok
        assert eventually(lambda: database.run(others, ("NOTIFY%",)) == [(2,)]), "one for each worker"
        bridge.process.terminate()
        bridge.process.wait(30)
        assert "Traceback" not in bridge.lines()
        assert "couldn't stop thread" not in bridge.lines()
    assert eventually(lambda: database.run(others, ("NOTIFY%",)) == [(0,)])
