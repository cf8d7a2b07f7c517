"""Which servers a request may name, and with whose credentials they are called."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted_mcp import ScriptedMcp, scripted_mcp

from bridge.agents.cancellation import Cancellation
from bridge.agents.mcp.hosted_servers import HostedServers
from bridge.agents.mcp.server import McpServer, McpServerInRun
from bridge.gemini.hosted_servers import HostedServer
from bridge.settings.mcp_servers import McpServerRow

OPEN = McpServerRow(name="wiki", url="https://wiki.example/mcp", hosted=True)
CLOSED = McpServerRow(name="payroll", url="https://payroll.example/mcp")
ALLOWED = ("mcp.example", "Other.Example:8443", "127.0.0.1:8000", "10.0.0.7")


def find(place: str, rows: tuple[McpServerRow, ...] = (OPEN, CLOSED)) -> McpServer | None:
    return HostedServers(rows, ALLOWED).find(HostedServer("label", place, ("loss",)))


@pytest.mark.parametrize(
    "place",
    [
        "wiki",
        "https://wiki.example/mcp",
        "https://mcp.example/mcp",
        "https://mcp.example:443/any/path?and=query",
        "https://MCP.Example/mcp",
        "https://other.example:8443/mcp",
        "http://127.0.0.1:8000/mcp",
        "https://10.0.0.7/mcp",
    ],
)
def test_a_server_that_the_administrator_allows_is_called(place: str) -> None:
    assert find(place) is not None


@pytest.mark.parametrize(
    "place",
    [
        "",
        "payroll",
        "https://payroll.example/mcp",
        "https://wiki.example/other",
        "http://mcp.example/mcp",  # without encryption
        "https://mcp.example:8443/mcp",
        "https://other.example/mcp",
        "https://sub.mcp.example/mcp",
        "https://mcp.example.evil.example/mcp",
        "https://mcp.example@evil.example/mcp",
        "https://evil.example/mcp.example",
        "https://evil.example#mcp.example",
        "https://evil.example\\@mcp.example/mcp",
        "http://127.0.0.1/mcp",
        "http://127.0.0.1:8001/mcp",
        "http://localhost:8000/mcp",
        "http://2130706433:8000/mcp",
        "http://10.0.0.7/mcp",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "file:///etc/passwd",
        "gopher://mcp.example/",
        "stdio:sh",
        "sh -c id",
    ],
)
def test_any_other_server_is_not_called(place: str) -> None:
    assert find(place) is None


def test_nothing_is_allowed_as_delivered() -> None:
    servers = HostedServers((CLOSED,), ())
    for place in ("payroll", CLOSED.url, "https://mcp.example/mcp", "http://127.0.0.1:8000/mcp"):
        assert servers.find(HostedServer("label", place, ())) is None


def test_a_name_of_an_allowed_host_may_mean_public_addresses_only() -> None:
    named, itself = find("https://mcp.example/mcp"), find("http://127.0.0.1:8000/mcp")
    assert named is not None
    assert itself is not None
    assert not named._route.private
    assert itself._route.private


@pytest.fixture
def scripted() -> Iterator[ScriptedMcp]:
    with scripted_mcp() as server:
        yield server


def test_the_administrators_credentials_come_before_the_callers(scripted: ScriptedMcp) -> None:
    row = McpServerRow(name="wiki", url=scripted.url, hosted=True, headers={"Authorization": "Bearer ours"})
    given = (("authorization", "Bearer theirs"), ("X-Tenant", "seven"))
    server = HostedServers((row,), ()).find(HostedServer("label", "wiki", (), given))
    assert server is not None
    McpServerInRun(server).tools(Cancellation())
    headers = scripted.asked[0].headers
    assert (headers["authorization"], headers["x-tenant"]) == ("Bearer ours", "seven")


def test_callers_with_credentials_of_their_own_do_not_share_a_list(scripted: ScriptedMcp) -> None:
    row = McpServerRow(name="wiki", url=scripted.url, hosted=True)
    servers = HostedServers((row,), ())
    for token in ("one", "two"):
        server = servers.find(HostedServer("label", "wiki", (), (("Authorization", token),)))
        assert server is not None
        McpServerInRun(server).tools(Cancellation())
    assert scripted.methods().count("tools/list") == 2


def test_credentials_are_not_in_the_text_of_a_server() -> None:
    assert "sesame" not in repr(HostedServer("label", "wiki", (), (("Authorization", "Bearer sesame"),)))
