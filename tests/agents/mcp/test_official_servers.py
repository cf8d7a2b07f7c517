"""The client against servers that are written with the official SDK, in both eras of the protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from official_mcp import official_mcp_server

from bridge.agents.mcp.address import CheckedRoute, McpAddress, network_of
from bridge.agents.mcp.channel import Channel, McpLimits
from bridge.agents.mcp.client import McpClient
from bridge.agents.mcp.errors import McpStopped, McpTimeout, RpcError
from bridge.agents.mcp.negotiation import KnownEras
from bridge.agents.mcp.results import McpResult
from bridge.agents.mcp.sessions import LATEST_HANDSHAKE, LATEST_MODERN

TOKEN = "sesame-open-sesame"
WAYS = {"events": (), "json": ("--json",), "stateless": ("--stateless",)}


@pytest.fixture(scope="module", params=list(WAYS))
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with official_mcp_server(*WAYS[request.param]) as url:
        yield url


def client(url: str, version: str = "", call: float = 20.0) -> McpClient:
    """`version`: what the bridge remembers of the server."""
    known, address = KnownEras(), McpAddress.parse(url)
    if version:
        known.keep(url, version)
    route = CheckedRoute(address, network_of(address), private=True)
    headers = [("Authorization", f"Bearer {TOKEN}")]
    return McpClient(Channel(route, "library", McpLimits(call=call), headers), known)


def go_on() -> bool:
    return False


@pytest.fixture(params=[LATEST_MODERN, LATEST_HANDSHAKE])
def library(url: str, request: pytest.FixtureRequest) -> Iterator[McpClient]:
    opened = client(url, request.param)
    yield opened
    opened.close()


def call(library: McpClient, name: str, **arguments: object) -> McpResult:
    tool = library.tools(go_on).find(name)
    assert tool is not None
    return library.call(tool, arguments, go_on)


def test_an_unknown_server_is_asked_for_its_era(url: str) -> None:
    opened = client(url)
    assert opened.tools(go_on).find("search")
    assert opened._known.find(url) == LATEST_MODERN


def test_the_tools_of_a_server_are_listed(library: McpClient) -> None:
    listed = library.tools(go_on)
    search = listed.find("search")
    assert search is not None
    assert search.description == "Search the library."
    assert search.schema["required"] == ["query"]
    assert search.says_read_only
    assert not listed.broken
    assert library.tools(go_on).digest == listed.digest


def test_a_text_is_sent_to_the_model_once(library: McpClient) -> None:
    """The SDK returns a text a second time as structured content."""
    assert call(library, "search", query="Ä — 語", limit=2).response == {"output": "2 results for Ä — 語"}


def test_structured_content_is_sent_as_it_is(library: McpClient) -> None:
    assert call(library, "book", title="Emma").response == {"output": {"title": "Emma", "pages": 4}}


def test_a_failed_tool_is_an_error_for_the_model(library: McpClient) -> None:
    failed = call(library, "fail")
    assert failed.is_error
    assert "error" in failed.response


def test_content_of_every_kind_is_carried_or_counted(library: McpClient) -> None:
    result = call(library, "everything")
    assert result.texts[0] == "first"
    assert [media.mime_type for media in result.media] == ["image/png"]
    assert result.losses == ["mcp.media_type"]
    assert '"uri":"note://1"' in result.text
    assert '"text":"remember"' in result.text
    assert '"uri":"https://library.example/more"' in result.text


def test_an_argument_that_proxies_read_is_repeated_in_a_header(library: McpClient) -> None:
    """The server of the newer era refuses a call whose header and body differ."""
    assert call(library, "routed", region="Zürich", query="x").text == "x in Zürich"


def test_wrong_arguments_are_an_error_for_the_model(library: McpClient) -> None:
    assert call(library, "search", limit="many").is_error


def test_the_credentials_reach_the_server_and_do_not_come_back(library: McpClient) -> None:
    assert call(library, "whoami").text == "authorization Bearer [key]"


def test_progress_is_told_while_a_tool_runs() -> None:
    for version in (LATEST_MODERN, LATEST_HANDSHAKE):
        with official_mcp_server() as url:
            opened, heard = client(url, version), list[str]()
            tool = opened.tools(go_on).find("count")
            assert tool is not None
            assert opened.call(tool, {"upto": 3}, go_on, heard.append).text == "counted to 3"
            assert [text.split()[-1] for text in heard] == ["1", "2", "3"]
            opened.close()


@pytest.mark.parametrize("version", [LATEST_MODERN, LATEST_HANDSHAKE])
@pytest.mark.parametrize("reason", ["nobody waits", "too slow"])
def test_a_call_that_nobody_waits_for_ends_at_the_server_too(version: str, reason: str) -> None:
    with official_mcp_server() as url:
        opened = client(url, version, call=20.0 if reason == "nobody waits" else 1.0)
        tool = opened.tools(go_on).find("sleep")
        assert tool is not None
        expected = McpStopped if reason == "nobody waits" else McpTimeout
        with pytest.raises(expected):
            opened.call(tool, {"seconds": 60}, lambda: reason == "nobody waits")
        assert "sleep" in call(opened, "was_cancelled").text
        opened.close()


@pytest.mark.parametrize("version", [LATEST_MODERN, LATEST_HANDSHAKE])
def test_a_tool_that_asks_a_person_gets_no_answer(version: str) -> None:
    with official_mcp_server() as url:
        opened = client(url, version)
        tool = opened.tools(go_on).find("ask")
        assert tool is not None
        with pytest.raises(RpcError):
            opened.call(tool, {}, go_on)


def test_a_server_that_forgot_the_session_gets_a_new_one() -> None:
    with official_mcp_server() as url:
        opened = client(url, LATEST_HANDSHAKE)
        opened.tools(go_on)
        session = opened._session
        opened.close()  # the server forgets the session
        opened._session = session
        assert opened.tools(go_on).find("search")


def test_new_tools_change_the_digest(library: McpClient) -> None:
    before = library.tools(go_on)
    grown = call(library, "grow").text
    after = library.tools(go_on)
    assert after.digest != before.digest
    assert after.find(grown)
