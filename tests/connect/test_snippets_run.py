"""Snippets that are programs run against the demo bridge with the real SDKs."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from gunicorn_bridge import clean_environment

from bridge.connect.clients import CLIENTS, Target

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
def test_the_curl_snippet_streams_an_answer(demo_bridge):
    script = CLIENTS["curl"].main.text(Target(demo_bridge.address, "gbk_any", "gemini-3.8-flash"))
    ran = subprocess.run(["sh"], input=script, capture_output=True, text=True, timeout=60)
    assert "chat.completion.chunk" in ran.stdout, ran.stderr
    assert ran.stdout.endswith("data: [DONE]\n\n")
