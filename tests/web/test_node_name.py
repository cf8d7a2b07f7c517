"""The name of the bridge: in the headers of every answer, in the log and in the metrics."""

from __future__ import annotations

import json
import logging
import socket
from pathlib import Path

import pytest
import requests
from gunicorn_bridge import gunicorn_bridge

from bridge.observe.logs import JsonFormatter
from bridge.settings import ServerSettings, SettingsError, load


@pytest.mark.parametrize("name", ["a", "bridge-1", "ai.example.com", "a" * 63, "B_2"])
def test_a_plain_name_is_accepted(tmp_path: Path, name: str) -> None:
    environ = {"BRIDGE_STATE_DIR": str(tmp_path), "BRIDGE_SERVER__NODE": name}
    assert load(environ=environ).server.node_name == name


@pytest.mark.parametrize("name", ["-a", ".a", "a b", "a\r\nx: y", 'a"b', "é", "a" * 64])
def test_a_name_that_is_not_plain_is_refused(tmp_path: Path, name: str) -> None:
    environ = {"BRIDGE_STATE_DIR": str(tmp_path), "BRIDGE_SERVER__NODE": name}
    with pytest.raises(SettingsError, match=r"server\.node must be a text: auto, or a name of at most 63"):
        load(environ=environ)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("ai-1.example.com", "ai-1.example.com"),
        ("a b\n", "a-b-"),
        ("-é-", "bridge"),
        ("x" * 200, "x" * 63),
        ("", "bridge"),
    ],
)
def test_the_default_is_the_name_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert ServerSettings().node_name == name


def test_every_answer_log_line_and_metric_has_the_name() -> None:
    with gunicorn_bridge(BRIDGE_SERVER__NODE="bridge-7") as bridge:
        hello = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}
        chat = f"{bridge.address}/v1/chat/completions"
        answers = [
            requests.post(chat, json=hello, timeout=30),
            requests.post(chat, json={**hello, "stream": True}, timeout=30),
            requests.post(f"{bridge.address}/v1/messages", data=b"{", timeout=30),
            requests.get(f"{bridge.address}/nothing", timeout=30),
            requests.delete(f"{bridge.address}/v1/models", timeout=30),
            requests.get(f"{bridge.address}/readyz", timeout=30),
            requests.get(f"{bridge.address}/metrics", timeout=30),
        ]
        assert [each.status_code for each in answers] == [200, 200, 400, 404, 405, 200, 200]
        assert {each.headers.get("x-bridge-node") for each in answers} == {"bridge-7"}
        assert 'gemini_bridge_node_info{node="bridge-7"} 1.0' in answers[-1].text
        assert bridge.request(status=404)["node"] == "bridge-7"
        assert {entry["node"] for entry in bridge.log_entries()} == {"bridge-7"}


def test_a_formatter_without_a_name_writes_no_field() -> None:
    assert "node" not in json.loads(JsonFormatter().format(logging.makeLogRecord({"msg": "x"})))
