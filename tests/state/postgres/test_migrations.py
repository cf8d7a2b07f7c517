"""Upgrades of the tables while bridges of the version before still run."""

from __future__ import annotations

import os
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import command_line
import pytest
import requests
from gunicorn_bridge import Bridge, gunicorn_bridge
from waiting import eventually

from bridge.state.postgres import migrations
from bridge.state.postgres.migrations import Migration, upgrade

#: What a bridge of the version before may still use goes in a later version.
TAKES_AWAY = re.compile(
    r"\b(DROP|RENAME|TRUNCATE|SET\s+NOT\s+NULL|ALTER\s+COLUMN\s+\w+\s+TYPE)\b", re.IGNORECASE
)
#: A table and a column more, as a next version may have them.
NEXT = "CREATE TABLE gemini_bridge.next (x int); ALTER TABLE gemini_bridge.request ADD COLUMN next text"


def test_a_migration_only_adds() -> None:
    for each in migrations.migrations():
        statements = re.sub(r"--.*", "", each.text)
        assert not TAKES_AWAY.findall(statements), each.name


def test_the_rule_finds_what_takes_away() -> None:
    for statement in ("drop table x", "ALTER TABLE x RENAME y TO z", "ALTER TABLE x ALTER COLUMN y TYPE int"):
        assert TAKES_AWAY.search(statement)


def models(bridge: Bridge, secret: str) -> int:
    headers = {"authorization": f"Bearer {secret}"}
    return requests.get(f"{bridge.address}/v1/models", headers=headers, timeout=30).status_code


def answer(bridge: Bridge, secret: str, **fields: str) -> requests.Response:
    return requests.post(
        f"{bridge.address}/v1/responses",
        headers={"authorization": f"Bearer {secret}"},
        json={"model": "gpt-5", "input": "Hello", **fields},
        timeout=30,
    )


def test_a_running_bridge_of_the_version_before_goes_on(postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its next workers too; only a reload is refused, and the settings before stay in force."""
    places = {"BRIDGE_STATE_URL": postgres.url, "BRIDGE_STATE_DIR": str(postgres.folder)}
    secret = command_line.command("key", "add", "alice", "--tokens-per-day", "1000000", **places).strip()
    known, codes, over = migrations.migrations(), list[int](), threading.Event()
    number = known[-1].number + 1
    with gunicorn_bridge(BRIDGE_STATE_URL=postgres.url) as bridge, ThreadPoolExecutor(1) as pool:
        assert eventually(lambda: models(bridge, secret) == 200)

        def converse() -> None:
            last = answer(bridge, secret)
            while not over.is_set():
                codes.append(last.status_code)
                last = answer(bridge, secret, previous_response_id=last.json()["id"])

        conversation = pool.submit(converse)
        assert eventually(lambda: len(codes) > 3)
        monkeypatch.setattr(migrations, "migrations", lambda: [*known, Migration(number, "next", NEXT)])
        assert upgrade(postgres.url) == ["next"]
        before = len(codes)
        assert eventually(lambda: len(codes) > before + 3)
        over.set()
        conversation.result(30)
        assert set(codes) == {200}
        killed = bridge.workers()[0]
        os.kill(killed, signal.SIGKILL)
        assert eventually(lambda: len(set(bridge.workers()) - {killed}) == 2)
        assert [answer(bridge, secret).status_code for _ in range(8)] == [200] * 8
        bridge.signal(signal.SIGHUP)
        rejected = eventually(lambda: bridge.log_entries(logger="bridge.server.active_settings"))
        assert f"tables of version {number}" in rejected[0]["reason"]
        assert answer(bridge, secret).status_code == 200
