"""Servers that are slow, huge, wrong or hostile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripted_mcp import (
    MODERN,
    TOOL,
    Answer,
    Asked,
    ScriptedMcp,
    as_json,
    error,
    events,
    result,
    scripted_mcp,
    text,
)

from bridge.agents.mcp.address import CheckedRoute, McpAddress, network_of
from bridge.agents.mcp.channel import Channel, McpLimits
from bridge.agents.mcp.client import MOST_TOOLS, McpClient
from bridge.agents.mcp.errors import McpError, McpStatus, McpStopped, McpTimeout, RpcError
from bridge.agents.mcp.negotiation import KnownEras
from bridge.agents.mcp.tool_list import McpTool

SEARCH = McpTool("search")
QUICK = McpLimits(5, 5)


@pytest.fixture
def server() -> Iterator[ScriptedMcp]:
    with scripted_mcp() as scripted:
        yield scripted


def go_on() -> bool:
    return False


def client(server: ScriptedMcp, limits: McpLimits = QUICK) -> McpClient:
    address = McpAddress.parse(server.url)
    route = CheckedRoute(address, network_of(address), private=True)
    return McpClient(Channel(route, "wiki", limits), KnownEras())


def call(server: ScriptedMcp, limits: McpLimits = QUICK) -> Any:
    return client(server, limits).call(SEARCH, {}, go_on).response


def answer_calls(server: ScriptedMcp, handler: Callable[[Asked], Answer]) -> None:
    server.handlers["tools/call"] = handler


# --- which era --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "refusal",
    [
        lambda asked: Answer(b"Bad Request", 400, "text/plain"),
        lambda asked: Answer(status=404),
        lambda asked: Answer(status=500),
        lambda asked: error(asked, -32601, "unknown", status=404),
        lambda asked: error(asked, -32600, "Missing session ID", status=400),
        lambda asked: error(asked, -32022, "no", {"supported": ["2025-11-25"]}, status=400),
        lambda asked: error(asked, -32022, "no", "nonsense"),
        lambda asked: result(asked, {"supportedVersions": ["2025-06-18"]}),
        lambda asked: result(asked, {}),
    ],
)
def test_a_server_that_does_not_know_the_newer_era_gets_a_handshake(
    server: ScriptedMcp, refusal: Callable[[Asked], Answer]
) -> None:
    server.speak_with_handshakes()
    server.handlers["server/discover"] = refusal
    assert call(server) == {"output": "found"}
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized", "tools/call"]


def test_the_era_is_found_out_once(server: ScriptedMcp) -> None:
    first = client(server)
    first.tools(go_on)
    second = McpClient(first._channel, first._known)
    second.tools(go_on)
    assert server.methods() == ["server/discover", "tools/list", "tools/list"]


def test_a_server_that_was_set_back_gets_a_handshake(server: ScriptedMcp) -> None:
    opened = client(server)
    opened.tools(go_on)
    server.speak_with_handshakes()
    modern = server.handlers["tools/list"]

    def refuse(asked: Asked) -> Answer:
        old = "mcp-session-id" in asked.headers
        return modern(asked) if old else error(asked, -32022, "no", {"supported": ["2025-11-25"]}, 400)

    server.handlers["tools/list"] = refuse
    assert opened.tools(go_on).find("search")


def test_a_server_that_was_updated_is_asked_again(server: ScriptedMcp) -> None:
    opened = client(server)
    opened._known.keep(server.url, "2025-11-25")
    assert opened.tools(go_on).find("search")
    assert server.methods() == ["initialize", "server/discover", "tools/list"]


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_say_nothing_about_the_era(server: ScriptedMcp, status: int) -> None:
    server.handlers["server/discover"] = lambda asked: Answer(status=status)
    with pytest.raises(McpStatus, match=f"the MCP server wiki refused the request with status {status}"):
        call(server)


def test_a_server_of_the_future_is_refused(server: ScriptedMcp) -> None:
    server.handlers["server/discover"] = lambda asked: error(asked, -32022, "", {"supported": ["2031-01-01"]})
    with pytest.raises(McpError, match="speaks no version of MCP that the bridge knows"):
        call(server)


def test_a_handshake_with_an_unknown_version_is_refused(server: ScriptedMcp) -> None:
    server.speak_with_handshakes(version="1999-01-01")
    with pytest.raises(McpError, match="a version of MCP that the bridge does not know"):
        call(server)


def test_a_modern_request_says_who_asks(server: ScriptedMcp) -> None:
    tool = McpTool("suche ü")
    client(server).call(tool, {"q": 1}, go_on)
    asked = server.asked[-1]
    assert asked.headers["mcp-protocol-version"] == MODERN
    assert asked.headers["mcp-method"] == "tools/call"
    assert asked.headers["mcp-name"] == "=?base64?c3VjaGUgw7w=?="
    meta = asked.message["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == MODERN
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "gemini-bridge"


def test_the_session_is_repeated_and_ended(server: ScriptedMcp) -> None:
    server.speak_with_handshakes(session="abc")
    opened = client(server)
    opened.call(SEARCH, {}, go_on)
    opened.close()
    by_method = {asked.method: asked.headers.get("mcp-session-id") for asked in server.asked}
    assert by_method["initialize"] is None
    assert [by_method[name] for name in ("notifications/initialized", "tools/call", "DELETE")] == ["abc"] * 3


def test_a_forgotten_session_begins_anew_once(server: ScriptedMcp) -> None:
    server.speak_with_handshakes()
    answer_calls(server, lambda asked: Answer(status=404))
    with pytest.raises(McpError, match="does not know the session"):
        call(server)
    assert server.methods().count("initialize") == 2
    assert server.methods().count("tools/call") == 2


# --- wrong answers ----------------------------------------------------------------------------------


def other_id(number: object) -> Callable[[Asked], Answer]:
    return lambda asked: as_json({"jsonrpc": "2.0", "id": number, "result": text("stolen")})


@pytest.mark.parametrize("number", [99, "1", 1.0, True, None, [1]])
def test_an_answer_to_another_request_is_refused(server: ScriptedMcp, number: object) -> None:
    answer_calls(server, other_id(number))
    with pytest.raises(McpError, match="answered another request"):
        call(server)


def test_an_answer_to_another_request_is_refused_in_a_stream(server: ScriptedMcp) -> None:
    answer_calls(server, lambda asked: events({"jsonrpc": "2.0", "id": 77, "result": text("stolen")}))
    with pytest.raises(McpError, match="answered another request"):
        call(server)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(b"<html>", kind="text/html"), "neither JSON nor an event stream"),
        (Answer(b"{", kind="application/json"), "not JSON"),
        (Answer(b"[1]", kind="application/json"), "not one message of JSON-RPC"),
        (Answer(b"", kind="application/json"), "not JSON"),
        (Answer(kind="text/event-stream", pieces=(b"data: {\r\n\r\n",)), "not JSON"),
        (Answer(kind="text/event-stream", pieces=(b": ping\r\n\r\n",)), "without a result"),
        (Answer(status=202), "took the request without an answer"),
        (Answer(status=302, headers={"Location": "http://169.254.169.254/latest"}), "redirects"),
        (Answer(status=307, headers={"Location": "https://other.example/mcp"}), "redirects"),
        (Answer(status=500), "status 500"),
    ],
)
def test_a_wrong_answer_is_an_error(server: ScriptedMcp, answer: Answer, reason: str) -> None:
    answer_calls(server, lambda asked: answer)
    with pytest.raises(McpError, match=reason):
        call(server)
    assert len(server.asked) == 2  # the redirect was not followed


def test_an_error_of_the_server_is_told(server: ScriptedMcp) -> None:
    answer_calls(server, lambda asked: error(asked, -32602, "no such book", status=400))
    with pytest.raises(RpcError, match="no such book"):
        call(server)


def test_an_error_without_an_id_is_told(server: ScriptedMcp) -> None:
    problem = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "unreadable"}}
    answer_calls(server, lambda asked: as_json(problem, 400))
    with pytest.raises(RpcError, match="unreadable"):
        call(server)


@pytest.mark.parametrize("content", [None, "text", [1], [{}], [{"type": ["text"]}], [{"type": "video"}]])
def test_content_of_an_unknown_kind_is_counted(server: ScriptedMcp, content: object) -> None:
    answer_calls(server, lambda asked: result(asked, {"content": content}))
    read = client(server).call(SEARCH, {}, go_on)
    assert read.response == {"output": ""}
    assert read.losses == (["mcp.content"] if isinstance(content, list) else [])


def test_a_result_that_needs_a_person_is_an_error_for_the_model(server: ScriptedMcp) -> None:
    answer_calls(server, lambda asked: result(asked, {"resultType": "input_required", "inputRequests": {}}))
    assert "asks a person" in call(server)["error"]


# --- slow and huge ----------------------------------------------------------------------------------


def test_a_silent_server_ends_at_the_time_limit(server: ScriptedMcp) -> None:
    answer_calls(server, lambda asked: events(5.0))
    began = time.monotonic()
    with pytest.raises(McpTimeout):
        call(server, McpLimits(1, 1))
    assert time.monotonic() - began < 3


def test_a_server_that_keeps_talking_ends_at_the_time_limit(server: ScriptedMcp) -> None:
    ping = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
    answer_calls(server, lambda asked: events(*[each for _ in range(50) for each in (ping, 0.1)]))
    with pytest.raises(McpTimeout):
        call(server, McpLimits(1, 1))


def test_a_huge_answer_is_cut_off(server: ScriptedMcp) -> None:
    pieces = (b'{"a": "',) + (b"x" * 65536,) * 1024
    answer_calls(server, lambda asked: Answer(kind="application/json", pieces=pieces))
    with pytest.raises(McpError, match="more than 1 MB"):
        call(server, McpLimits(5, 5, 1 << 20))
    assert server.closed.wait(5)


def test_leaving_closes_the_stream(server: ScriptedMcp) -> None:
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1}}
    answer_calls(server, lambda asked: events(*[each for _ in range(40) for each in (progress, 0.05)]))
    left = threading.Event()
    threading.Timer(0.3, left.set).start()
    with pytest.raises(McpStopped):
        client(server).call(SEARCH, {}, left.is_set)
    assert server.closed.wait(5)


def test_leaving_tells_a_server_of_the_older_era(server: ScriptedMcp) -> None:
    server.speak_with_handshakes()
    answer_calls(server, lambda asked: events(2.0))
    left = threading.Event()
    threading.Timer(0.3, left.set).start()
    with pytest.raises(McpStopped):
        client(server).call(SEARCH, {}, left.is_set)
    call_id = next(asked.message["id"] for asked in server.asked if asked.method == "tools/call")
    assert server.asked[-1].message == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": call_id},
    }


def test_a_server_that_accepts_no_connection_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    address = McpAddress.parse(url)
    channel = Channel(CheckedRoute(address, network_of(address), True), "wiki", McpLimits(1, 1))
    with pytest.raises(McpError, match="the MCP server wiki could not be reached"):
        McpClient(channel, KnownEras()).tools(go_on)


# --- messages in the middle of an answer -------------------------------------------------------------


def test_a_server_of_the_older_era_may_ask_for_a_sign_of_life(server: ScriptedMcp) -> None:
    server.speak_with_handshakes()
    asking = {"jsonrpc": "2.0", "id": "p1", "method": "ping"}
    sampling = {"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage", "params": {}}

    def answer(asked: Asked) -> Answer:
        done = {"jsonrpc": "2.0", "id": asked.message["id"], "result": text("found")}
        return events(asking, sampling, done)

    answer_calls(server, answer)
    assert call(server) == {"output": "found"}
    pong, refusal = (asked.message for asked in server.asked[-2:])
    assert pong == {"jsonrpc": "2.0", "id": "p1", "result": {}}
    assert (refusal["id"], refusal["error"]["code"]) == (5, -32601)


def test_progress_of_another_call_is_ignored(server: ScriptedMcp) -> None:
    def answer(asked: Asked) -> Answer:
        number = asked.message["id"]
        told = [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            for params in (
                {"progressToken": 999, "progress": 1},
                {"progressToken": number, "progress": 2, "total": 4, "message": "half"},
                {"progressToken": number, "progress": 3},
                "nonsense",
            )
        ]
        return events(*told, {"jsonrpc": "2.0", "id": number, "result": text("found")})

    answer_calls(server, answer)
    heard: list[str] = []
    client(server).call(SEARCH, {}, go_on, heard.append)
    assert heard == ["2/4 half", "3"]


# --- lists of tools ---------------------------------------------------------------------------------


def tool(name: object = "search", schema: object = TOOL["inputSchema"]) -> dict[str, Any]:
    return {"name": name, "inputSchema": schema}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (tool(schema=None), "no schema"),
        (tool(schema=[1]), "no schema"),
        (tool(schema={"type": "string"}), "must describe an object"),
        (tool(schema=deep(400)), "nested deeper than 64 levels"),
        (tool(name=""), "no valid name"),
        (tool(name=7), "no valid name"),
        (tool(name="a\nb"), "no valid name"),
        (tool(name="n" * 200), "no valid name"),
        ("nonsense", "no valid name"),
        (tool(schema={"type": "object", "x-mcp-header": "A"}), "x-mcp-header"),
        (
            tool(schema={"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}),
            "x-mcp-header",
        ),
        (
            tool(schema={"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
            "x-mcp-header",
        ),
    ],
)
def test_a_broken_tool_does_not_spoil_the_others(server: ScriptedMcp, listed: object, reason: str) -> None:
    server.tools = [tool("good"), listed, tool("better")]
    found = client(server).tools(go_on)
    assert [each.name for each in found.tools] == ["good", "better"]
    assert reason in found.broken[0].reason


def test_two_tools_of_one_name_are_both_refused(server: ScriptedMcp) -> None:
    server.tools = [tool("twin"), tool("good"), tool("twin", {"type": "object", "description": "another"})]
    found = client(server).tools(go_on)
    assert [each.name for each in found.tools] == ["good"]
    assert [(each.name, each.reason) for each in found.broken] == [
        ("twin", "the server lists more than one tool of this name")
    ]


def pages(server: ScriptedMcp, cursor: Callable[[int], object]) -> None:
    def page(asked: Asked) -> Answer:
        number = server.methods().count("tools/list")
        return result(asked, {"tools": [tool(f"t{number}")], "nextCursor": cursor(number)})

    server.handlers["tools/list"] = page


def test_all_pages_of_a_list_are_read(server: ScriptedMcp) -> None:
    pages(server, lambda number: f"p{number}" if number < 4 else None)
    assert [each.name for each in client(server).tools(go_on).tools] == ["t1", "t2", "t3", "t4"]
    assert [asked.message["params"].get("cursor") for asked in server.asked[1:]] == [None, "p1", "p2", "p3"]


@pytest.mark.parametrize("cursor", [lambda number: "same", lambda number: f"p{number}"])
def test_a_list_without_an_end_is_refused(server: ScriptedMcp, cursor: Callable[[int], object]) -> None:
    pages(server, cursor)
    with pytest.raises(McpError, match="has no end"):
        client(server).tools(go_on)


def test_a_list_that_is_too_long_is_refused(server: ScriptedMcp) -> None:
    server.tools = [tool(f"t{number}") for number in range(MOST_TOOLS + 1)]
    with pytest.raises(McpError, match="more than 1024 tools"):
        client(server).tools(go_on)


def test_the_digest_sees_every_change_but_no_other_order(server: ScriptedMcp) -> None:
    opened = client(server)
    digests = []
    for listed in (
        [tool("a"), tool("b")],
        [tool("b"), tool("a")],
        [tool("a"), {**tool("b"), "description": "Now with orders for the model."}],
        [tool("a"), {**tool("b"), "annotations": {"readOnlyHint": True}}],
        [tool("a")],
    ):
        server.tools = listed
        digests.append(opened.tools(go_on).digest)
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4
