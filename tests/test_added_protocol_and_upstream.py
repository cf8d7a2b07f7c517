"""A new protocol or upstream needs only its own file or folder and one line in a list."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge

PROTOCOL = """
from dataclasses import replace
from bridge.protocols import anthropic_messages

PROTOCOL = replace(
    anthropic_messages.PROTOCOL,
    name="one_more",
    paths=("/v9/talk",),
    counting=None,
    identifying_headers=frozenset(),
)
"""
UPSTREAM = """
from bridge.upstream.demo import DemoUpstream

class OneMore(DemoUpstream):
    pass
"""
BODY = {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}


def list_it(path: Path, last: str, line: str) -> None:
    """Add one line after the last of the list."""
    before, found, after = path.read_text().partition(f"    {last}\n")
    assert found
    path.write_text(f"{before}{found}    {line}\n{after}")


@pytest.fixture(scope="module")
def larger_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("larger")
    for name in ("bridge", "config", "docs"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "local.toml"))
    for name in ("app.py", "gunicorn.conf.py"):
        shutil.copy(ROOT / name, root)
    protocols, upstreams = root / "bridge" / "protocols", root / "bridge" / "upstream"
    (protocols / "one_more").mkdir()
    (protocols / "one_more" / "__init__.py").write_text(PROTOCOL)
    (upstreams / "one_more.py").write_text(UPSTREAM)
    list_it(protocols / "__init__.py", "gemini_native,", "one_more,")
    list_it(protocols / "__init__.py", "gemini_native.PROTOCOL,", "one_more.PROTOCOL,")
    list_it(upstreams / "__init__.py", '"demo": "DemoUpstream",', '"one_more": "OneMore",')
    return root


@pytest.fixture(scope="module")
def larger(larger_project: Path) -> Iterator[Bridge]:
    with gunicorn_bridge(root=larger_project, BRIDGE_UPSTREAM__TRANSPORT="one_more") as running:
        yield running


def post(bridge: Bridge, body: object) -> requests.Response:
    return requests.post(f"{bridge.address}/v9/talk", json=body, timeout=60)


def test_the_added_protocol_answers_streamed_and_unstreamed(larger: Bridge) -> None:
    assert post(larger, BODY).json()["content"][0]["text"]
    assert "event: message_stop" in post(larger, {**BODY, "stream": True}).text


def test_the_added_protocol_has_its_own_error_envelope(larger: Bridge) -> None:
    refused = post(larger, {**BODY, "messages": "Hi"})
    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "invalid_request_error"


def test_all_status_pages_list_the_added_protocol_and_upstream(larger: Bridge) -> None:
    post(larger, BODY)
    for path, told in {
        "/": "POST /v9/talk",
        "/readyz": '"upstream":"one_more"',
        "/metrics": 'protocol="one_more"',
    }.items():
        assert told in requests.get(f"{larger.address}{path}", timeout=60).text, path


@pytest.mark.parametrize(
    ("program", "page", "told"),
    [
        ("openapi.py", "openapi.json", "/v9/talk"),
        ("states/generate.py", "states/one_more.md", "stateDiagram"),
        ("upstreams.py", "UPSTREAMS.md", "one_more"),
    ],
)
def test_the_documents_can_be_generated_with_the_added_parts(
    larger_project: Path, program: str, page: str, told: str
) -> None:
    command = [sys.executable, f"docs/{program}"]
    made = subprocess.run(
        command,
        cwd=larger_project,
        env={"PYTHONPATH": str(larger_project)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert told in (larger_project / "docs" / page).read_text()
