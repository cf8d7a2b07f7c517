"""GET /openapi.json and GET /docs: all routes, for programs and on a page, without secrets."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import requests
from client_keys import ClientKeys
from gunicorn_bridge import ROOT, Bridge
from html_checker import HtmlChecker

from bridge.protocols import PROTOCOLS
from bridge.settings import load
from bridge.state.key_store import Rules
from bridge.web.app import create_app

DOCUMENT = ROOT / "docs" / "openapi.json"


def page_of(bridge: Bridge) -> str:
    answer = requests.get(f"{bridge.address}/docs", timeout=30)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    return answer.text


def sections(page: str) -> dict[str, str]:
    """The text of each group, by its name."""
    found = re.findall(r'<section class="api" id="(\w+)"(.*?)</section>', page, re.DOTALL)
    return {name: html.unescape(text) for name, text in found}


def test_the_served_document_is_the_generated_one(demo_bridge):
    answer = requests.get(f"{demo_bridge.address}/openapi.json", timeout=30)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.content == DOCUMENT.read_bytes()


def test_every_operation_has_a_group_and_a_purpose():
    document = json.loads(DOCUMENT.read_text())
    names = {tag["name"] for tag in document["tags"]}
    assert names >= {protocol.name for protocol in PROTOCOLS}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (path, method)
            assert set(operation["tags"]) <= names
            if path.startswith("/v1"):
                assert operation["tags"] != ["operation"], path


def test_the_page_lists_every_endpoint_in_its_group(demo_bridge):
    shown = sections(page_of(demo_bridge))
    for path, methods in json.loads(DOCUMENT.read_text())["paths"].items():
        for method, operation in methods.items():
            row = re.compile(
                rf">{method.upper()}</code></td><td><code>{re.escape(path)}</code></td><td>{operation['summary']}"
            )
            assert row.search(shown[operation["tags"][0]]), (method, path)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_each_protocol_names_its_vendors_page_key_and_errors(demo_bridge, protocol):
    text = sections(page_of(demo_bridge))[protocol.name]
    assert re.search(r'<a href="https://[a-z.]+/[^"]+" rel="noreferrer">https://', text)
    assert re.search(
        r"Key: <code>(Authorization: Bearer|x-api-key:|x-goog-api-key:) KEY</code>|Bearer KEY", text
    )
    statuses = re.findall(r"<tr><td><code>(\d{3})</code></td><td><code>[a-z_, ]+</code>", text)
    assert {"400", "401", "404", "429", "500"} <= set(statuses)


def examples(page: str) -> list[str]:
    return [
        html.unescape(each) for each in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.DOTALL)
    ]


def test_every_group_has_an_example_that_works(demo_bridge):
    found = examples(page_of(demo_bridge))
    assert len(found) == len(PROTOCOLS) + 3  # and models, the account, the operation
    for command in found:
        words = shlex.split(command.replace("\\\n", " "))
        done = subprocess.run(
            [*words, "--silent", "--max-time", "30", "--write-out", "\n%{http_code}"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.endswith("\n200"), command


def test_the_page_is_valid_and_loads_nothing(demo_bridge):
    answer = requests.get(f"{demo_bridge.address}/docs", timeout=30)
    pages = {
        tag["externalDocs"]["url"]
        for tag in json.loads(DOCUMENT.read_text())["tags"]
        if "externalDocs" in tag
    }
    problems = [each.partition(": ")[2] for each in HtmlChecker(answer.text).problems]
    assert set(problems) == {f"outside: {page}" for page in pages}, "links to the vendors, and nothing else"
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = answer.headers["Content-Security-Policy"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "<script" not in answer.text
    assert not re.search(r"(?:src|@import|url\()\s*=?\s*[\"']?https?:", answer.text)


def test_the_front_page_links_to_it(demo_bridge):
    front = requests.get(demo_bridge.address, headers={"Accept": "text/html"}, timeout=30).text
    assert 'href="/docs"' in front
    assert 'href="/openapi.json"' in front
    listed = requests.get(demo_bridge.address, timeout=30).json()["endpoints"]
    assert {"GET /docs", "GET /openapi.json"} <= set(listed)


def test_both_can_be_read_without_a_key_and_show_none(tmp_path: Path, canary_key: str):
    secret = ClientKeys(tmp_path).add("alice", Rules())
    settings = load(environ={"BRIDGE_STATE_DIR": str(tmp_path), "GEMINI_API_KEY": canary_key})
    client = create_app(settings).test_client()
    assert client.get("/v1/models").status_code == 401
    for path in ("/docs", "/openapi.json"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert canary_key not in answer.text
        assert secret not in answer.text


@pytest.mark.parametrize("host", ["evil.example", '"><script>'])
def test_a_forged_host_is_not_shown(tmp_path: Path, canary_key: str, host: str):
    settings = load(environ={"BRIDGE_STATE_DIR": str(tmp_path), "GEMINI_API_KEY": canary_key})
    answer = create_app(settings).test_client().get("/docs", headers={"Host": host})
    assert host not in answer.text
