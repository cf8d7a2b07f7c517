"""The real Codex and Claude Code behind a real nginx that sends each of their requests to another bridge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import needs_openssl
from nginx_proxy import NGINX, alternating_proxy
from postgres_server import postgres_server
from scripted_gemini import Asked
from test_claude_code import Claude
from test_codex import Codex, answer_of, call, finished, parts, say, sse
from two_bridges import Company, two_bridges

pytestmark = [pytest.mark.skipif(NGINX is None, reason="nginx is not installed"), needs_openssl]

#: Gemini's signatures of two calls. The clients do not send them back in every protocol.
FIRST, SECOND = "c2lnbmVkLWJ5LW9uZQ==", "c2lnbmVkLWJ5LXR3bw=="


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    with postgres_server() as server, two_bridges(server, tmp_path_factory.mktemp("nginx")) as made:
        yield made


@pytest.fixture
def address(company: Company, tmp_path: Path) -> Iterator[str]:
    """The address of a proxy that sends each request to the next bridge."""
    (folder := tmp_path / "proxy").mkdir()
    bridges = [bridge.address for bridge in company.bridges.values()]
    with alternating_proxy(folder, *bridges) as running:
        company.gemini.forget()
        yield running


def nodes(company: Company, key: str) -> list[str]:
    """The bridges that answered the requests of this key to a model, in the order of the answers."""
    logged = [
        line for bridge in company.bridges.values() for line in bridge.requests(key=key) if "finish" in line
    ]
    return [line["node"] for line in sorted(logged, key=lambda each: str(each["time"]))]


def signatures(asked: Asked) -> list[str]:
    return [part["thoughtSignature"] for part in parts(asked, "functionCall")]


def test_a_session_of_codex_wanders(company: Company, address: str, tmp_path: Path) -> None:
    client = company.client()
    codex = Codex(address, tmp_path, client.front.secret)
    company.gemini.forget()
    company.gemini.will_say(
        sse(call("exec_command", "c1", signature=FIRST, cmd="echo one-$((6*7))"), finished()),
        sse(call("exec_command", "c2", signature=SECOND, cmd="echo two-$((6*8))"), finished()),
        say("Both ran."),
        say("They printed 42 and 48."),
    )
    assert answer_of(codex.says("run both")) == "Both ran."
    assert answer_of(codex.says("what did they print?", "resume", "--last")) == "They printed 42 and 48."
    results = str(parts(company.gemini.asked[-1], "functionResponse"))
    assert "one-42" in results
    assert "two-48" in results
    assert signatures(company.gemini.asked[-1]) == [FIRST, SECOND]
    assert set(nodes(company, client.key)) == {"one", "two"}


def test_a_session_of_claude_code_wanders(company: Company, address: str, tmp_path: Path) -> None:
    client = company.client()
    claude = Claude(address, tmp_path, client.front.secret)
    company.gemini.will_say(
        sse(call("Bash", "c1", signature=FIRST, command="echo one-$((6*7))", description="1"), finished()),
        sse(call("Bash", "c2", signature=SECOND, command="echo two-$((6*8))", description="2"), finished()),
        say("Both ran."),
        say("They printed 42 and 48."),
    )
    assert claude.says("run both")["result"] == "Both ran."
    assert claude.says("what did they print?", "--continue")["result"] == "They printed 42 and 48."
    results = str(parts(company.gemini.asked[-1], "functionResponse"))
    assert "one-42" in results
    assert "two-48" in results
    assert signatures(company.gemini.asked[-1]) == [FIRST, SECOND]
    assert set(nodes(company, client.key)) == {"one", "two"}
