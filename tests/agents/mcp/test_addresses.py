"""Which addresses a server may have. No test leaves the machine: names and connections are the test's own."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence

import pytest
from scripted_mcp import Answer, ScriptedMcp, scripted_mcp

from bridge.agents.mcp.address import CheckedRoute, McpAddress
from bridge.agents.mcp.channel import Channel, McpLimits
from bridge.agents.mcp.client import McpClient
from bridge.agents.mcp.errors import McpError
from bridge.agents.mcp.negotiation import KnownEras
from bridge.agents.mcp.tool_list import McpTool
from bridge.fetch.network import Network, _resolve

PUBLIC = "93.184.216.34"
REFUSED = "the MCP server wiki is not at an address that the bridge may connect to"

#: What a name may turn out to mean. The last column: whether a server of the administrator may be there.
ADDRESSES = {
    "loopback": ("127.0.0.1", True),
    "another loopback": ("127.8.9.10", True),
    "loopback 6": ("::1", True),
    "loopback in 6": ("::ffff:127.0.0.1", True),
    "private": ("10.1.2.3", True),
    "private 172": ("172.16.0.1", True),
    "private 192": ("192.168.1.1", True),
    "unique local": ("fd12:3456::1", True),
    "carrier": ("100.64.0.1", True),
    "metadata": ("169.254.169.254", False),
    "metadata in 6": ("::ffff:169.254.169.254", False),
    "metadata of Azure": ("168.63.129.16", False),
    "metadata of Amazon": ("fd00:ec2::254", False),
    "metadata of Alibaba": ("100.100.100.200", False),
    "link local": ("fe80::1", False),
    "nobody": ("0.0.0.0", False),
    "nobody 6": ("::", False),
    "everybody": ("224.0.0.1", False),
    "no address": ("wiki", False),
}


class Names:
    """A resolver whose answers change, and the connections that were opened."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.connected: list[str] = []
        self.port = 0

    def resolve(self, _host: str) -> Sequence[str]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def connect(self, address: str, seconds: float) -> socket.socket:
        self.connected.append(address)
        return socket.create_connection(("127.0.0.1", self.port), seconds)

    def route(self, url: str, private: bool = False) -> CheckedRoute:
        network = Network(ssl.create_default_context(), self.resolve, self.connect)
        return CheckedRoute(McpAddress.parse(url), network, private)


def client(route: CheckedRoute) -> McpClient:
    return McpClient(Channel(route, "wiki", McpLimits(5, 5)), KnownEras())


def go_on() -> bool:
    return False


@pytest.fixture
def server() -> Iterator[ScriptedMcp]:
    with scripted_mcp() as scripted:
        yield scripted


@pytest.mark.parametrize("case", list(ADDRESSES))
def test_a_name_that_means_no_public_address_is_refused(case: str) -> None:
    for answer in ([ADDRESSES[case][0]], [PUBLIC, ADDRESSES[case][0]]):
        names = Names(answer)
        with pytest.raises(McpError, match=REFUSED):
            client(names.route("https://wiki.example/mcp")).tools(go_on)
        assert not names.connected


@pytest.mark.parametrize("case", list(ADDRESSES))
def test_the_administrators_file_may_name_a_private_host(server: ScriptedMcp, case: str) -> None:
    address, allowed = ADDRESSES[case]
    names = Names([address])
    names.port = McpAddress.parse(server.url).port
    opened = client(names.route("http://wiki.example/mcp", private=True))
    if allowed:
        assert opened.tools(go_on).find("search")
        assert set(names.connected) == {address}
    else:
        with pytest.raises(McpError, match=REFUSED):
            opened.tools(go_on)
        assert not names.connected


@pytest.mark.parametrize("written", ["2130706433", "0x7f000001", "017700000001", "127.1"])
def test_other_spellings_of_loopback_are_refused(written: str) -> None:
    """The system's own resolver reads them as 127.0.0.1."""
    names = Names(_resolve(written))
    with pytest.raises(McpError, match=REFUSED):
        client(names.route(f"https://{written}/mcp")).tools(go_on)


def test_a_second_look_up_that_means_a_private_address_is_refused(server: ScriptedMcp) -> None:
    names = Names([PUBLIC], [PUBLIC], ["169.254.169.254"])
    names.port = McpAddress.parse(server.url).port
    opened = client(names.route("http://wiki.example/mcp"))
    assert opened.tools(go_on).find("search")  # two connections: the era, and the list
    with pytest.raises(McpError, match=REFUSED):
        opened.call(McpTool("search"), {}, go_on)
    assert names.connected == [PUBLIC, PUBLIC]


def test_the_connection_goes_to_the_address_that_was_checked(server: ScriptedMcp) -> None:
    names = Names([PUBLIC], ["10.0.0.1"])
    names.port = McpAddress.parse(server.url).port
    route = names.route("http://wiki.example/mcp")
    route.open(5, "the server").close()
    assert names.connected == [PUBLIC]


def test_a_redirect_to_the_metadata_service_is_not_followed(server: ScriptedMcp) -> None:
    moved = Answer(status=307, headers={"Location": "http://169.254.169.254/latest/meta-data/"})
    server.handlers["server/discover"] = lambda asked: moved
    names = Names(["127.0.0.1"])
    names.port = McpAddress.parse(server.url).port
    with pytest.raises(McpError, match="redirects to another address"):
        client(names.route("http://wiki.example/mcp", private=True)).tools(go_on)
    assert names.connected == ["127.0.0.1"]
    assert len(server.asked) == 1


def test_the_proxies_of_the_environment_are_not_used(
    server: ScriptedMcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    names = Names(["127.0.0.1"])
    names.port = McpAddress.parse(server.url).port
    assert client(names.route("http://wiki.example/mcp", private=True)).tools(go_on).find("search")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://wiki.example/mcp",
        "file:///etc/passwd",
        "https://user:word@wiki.example/mcp",
        "https://wiki.example/mcp#part",
        "https:///mcp",
        "https://wiki.example:0/mcp",
        "https://wiki.example:99999/mcp",
        "https://wiki.example\\@10.0.0.1/mcp",
        "https://wiki.example/mcp\r\nX: 1",
        "https://wiki .example/mcp",
        "//wiki.example/mcp",
        "wiki",
        "",
    ],
)
def test_an_address_that_programs_read_differently_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be a complete https address"):
        McpAddress.parse(url)


def test_an_address_keeps_its_port_path_and_query() -> None:
    address = McpAddress.parse("https://Wiki.Example:8443/a b/mcp?x=1".replace(" ", "%20"))
    assert (address.host, address.port, address.target) == ("wiki.example", 8443, "/a%20b/mcp?x=1")
    assert address.host_field == "wiki.example:8443"
    assert McpAddress.parse("https://[::1]/").host_field == "[::1]"
