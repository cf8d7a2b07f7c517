"""Snippets that are programs run against the demo bridge with the real SDKs."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from client_keys import ClientKeys
from gunicorn_bridge import clean_environment, gunicorn_bridge

from bridge.connect.clients import CLIENTS, Target
from bridge.state.key_store import Rules

PROGRAMS = [client for client in CLIENTS.values() if client.main.language == "python"]


@pytest.mark.parametrize("client", PROGRAMS, ids=lambda client: client.name)
def test_a_python_snippet_prints_the_models_answer(client, demo_bridge):
    code = client.main.text(Target(demo_bridge.address, "gbk_any", "gemini-3.8-flash"))
    ran = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr
    assert "demo model" in ran.stdout


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize(
    ("key", "model", "verdict"),
    [
        ("gbk_good", "demo", "Key, model and stream work.\n"),
        ("gbk_wrong", "demo", "The check failed.\n"),
        ("gbk_good", "demo-cut", "The check failed.\n"),
        ("gbk_good", "demo-503", "The check failed.\n"),
    ],
)
def test_the_curl_check_says_whether_key_model_and_stream_work(tmp_path, key, model, verdict):
    secret = ClientKeys(tmp_path).add("alice", Rules())
    check = CLIENTS["curl"].snippets[1]
    with gunicorn_bridge(BRIDGE_STATE_DIR=str(tmp_path)) as bridge:
        target = Target(bridge.address, secret if key == "gbk_good" else key, model)
        ran = subprocess.run(
            ["sh", "-c", check.text(target)], capture_output=True, text=True, timeout=60, check=False
        )
    assert ran.stdout.endswith(verdict), ran.stdout
    failed = verdict.startswith("The check")
    assert (ran.returncode != 0, '"error"' in ran.stdout) == (failed, failed)


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_curl_snippet_streams_an_answer(demo_bridge):
    script = CLIENTS["curl"].main.text(Target(demo_bridge.address, "gbk_any", "gemini-3.8-flash"))
    ran = subprocess.run(["sh"], input=script, capture_output=True, text=True, timeout=60)
    assert "chat.completion.chunk" in ran.stdout, ran.stderr
    assert ran.stdout.endswith("data: [DONE]\n\n")
