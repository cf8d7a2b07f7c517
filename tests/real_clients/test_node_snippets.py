"""The snippets for Node.js, run with the real packages against the demo bridge."""

from __future__ import annotations

import subprocess

import pytest
from installed import FOLDER, client_environment

from bridge.connect.clients import CLIENTS, Target

PROGRAMS = [client for client in CLIENTS.values() if client.main.language == "javascript"]


@pytest.mark.parametrize("client", PROGRAMS, ids=lambda client: client.name)
def test_a_node_snippet_prints_the_models_answer(client, demo_bridge, tmp_path):
    code = client.main.text(Target(demo_bridge.address, "gbk_any", "gemini-3.8-flash"))
    ran = subprocess.run(
        ["node", "--input-type=module", "-"],
        cwd=FOLDER,
        env=client_environment(tmp_path),
        input=code,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert "demo model" in ran.stdout
