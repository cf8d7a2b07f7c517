"""HTTP tools: what is sent, and that no parameter and no server leads the bridge elsewhere."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest
from scripted_gemini import Reply, ScriptedGemini
from small_server import answering

from bridge.agents.cancellation import Cancellation
from bridge.agents.http_tool import HttpTool
from bridge.agents.tool import Invocation, ToolResult
from bridge.settings.agents import HttpToolRow

ANY = {"type": "object", "properties": {"id": {}, "q": {}, "more": {}}}


def tool(url: str, **more: Any) -> HttpTool:
    return HttpTool(HttpToolRow(name="api", description="d", url=url, parameters=ANY, **more))


def call(url: str, arguments: dict[str, Any], seconds: float = 5, **more: Any) -> ToolResult:
    return tool(url, **more).invoke(Invocation("1", arguments, seconds, Cancellation()))


class Echo:
    """Answers with the path of the request, and keeps the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []

    def __call__(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        self.asked.append((path, headers))
        return 200, {"Content-Type": "text/plain"}, path.encode()


def test_parameters_go_into_path_query_and_headers_are_sent() -> None:
    with answering(Echo()) as server:
        arguments = {"id": "a/b c", "q": "x&y=z", "more": [1, "ü"]}
        result = call(f"{server}/users/{{id}}?q={{q}}", arguments, headers={"X-Token": "t"})
    assert result.response == {"output": "/users/a%2Fb%20c?q=x%26y%3Dz&more=%5B1%2C%22%C3%BC%22%5D"}


def test_headers_are_sent() -> None:
    echo = Echo()
    with answering(echo) as server:
        call(f"{server}/", {}, headers={"Authorization": "Bearer t"})
    assert echo.asked[0][1]["authorization"] == "Bearer t"
    assert echo.asked[0][1]["user-agent"].startswith("gemini-bridge/")


def test_what_the_address_does_not_name_goes_into_the_body() -> None:
    gemini = ScriptedGemini()
    gemini.will_say(Reply([b'{"ok": true}'], headers={"Content-Type": "application/json"}))
    result = call(f"{gemini.address}/items/{{id}}", {"id": 7, "q": True, "more": {"a": None}}, method="POST")
    gemini.close()
    assert result.response == {"output": {"ok": True}}
    assert (gemini.asked[0].path, gemini.asked[0].body) == ("/items/7", {"q": True, "more": {"a": None}})


STRANGE = [
    "@evil.example",
    "//evil.example/",
    "evil.example:80",
    "../admin",
    "..%2fadmin",
    "%2e%2e",
    "?x=1",
    "#fragment",
    "a\r\nHost: evil.example",
    "a b\tc",
    "http://169.254.169.254/latest",
    "\\\\evil",
    "ü\u202e",
    "{id}",
    "\0",
]


@pytest.mark.parametrize("value", STRANGE, ids=map(repr, STRANGE))
def test_a_parameter_cannot_change_the_server_or_the_folder(value: str) -> None:
    echo = Echo()
    with answering(echo) as server:
        result = call(f"{server}/users/{{id}}/end?q={{q}}", {"id": value, "q": value})
    assert not result.is_error
    ((path, headers),) = echo.asked
    assert headers["host"] == server.removeprefix("http://")
    folder, _, query = path.partition("?")
    assert folder.startswith("/users/")
    assert folder.endswith("/end")
    assert folder.count("/") == 3
    assert query.count("=") == 1
    assert "&" not in query


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("..", ". or .. alone"),
        (".", ". or .. alone"),
        ("", "must not be empty"),
        ("\ud800", "not valid text"),
    ],
)
def test_a_parameter_that_would_be_a_step_in_the_path_is_refused(value: str, problem: str) -> None:
    result = call("http://127.0.0.1:9/users/{id}/end", {"id": value})
    assert problem in result.response["error"]


def test_a_missing_parameter_of_the_address_is_named() -> None:
    assert "'id' is missing" in call("http://127.0.0.1:9/{id}", {}).response["error"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    asked: list[str] = []

    def answer(path: str, _headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        asked.append(path)
        return status, {"Location": "http://169.254.169.254/latest/meta-data/"}, b""

    with answering(answer) as server:
        result = call(f"{server}/a", {})
    assert result.is_error
    assert "redirects" in result.response["error"]
    assert asked == ["/a"]


def test_an_error_of_the_server_is_an_error_with_its_body() -> None:
    def answer(_path: str, _headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return 404, {"Content-Type": "application/problem+json"}, b'{"why": "gone"}'

    with answering(answer) as server:
        result = call(f"{server}/a", {})
    assert result.is_error
    assert result.response == {"error": "The server responded with status 404.", "body": {"why": "gone"}}


def test_a_large_response_is_not_read_to_its_end() -> None:
    def answer(_path: str, _headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, b"x" * 3000

    with answering(answer) as server:
        assert call(f"{server}/a", {}, max_kb=2).response == {"error": "The response is larger than 2 KB."}
        assert not call(f"{server}/a", {}, max_kb=3).is_error


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with answering(Echo()) as server:
        assert call(f"{server}/a", {}).response == {"output": "/a"}


def test_a_server_that_cannot_be_reached_is_an_error() -> None:
    assert "cannot be reached" in call("http://127.0.0.1:9/", {}).response["error"]


def test_a_server_that_never_answers_ends_at_the_time_limit_or_when_cancelled() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    assert call(url, {}, seconds=0.2).response == {"error": "The server did not respond within 0.2 seconds."}
    cancellation = Cancellation()
    threading.Timer(0.2, cancellation.cancel).start()
    began = time.monotonic()
    assert tool(url).invoke(Invocation("1", {}, 30, cancellation)).is_error
    assert time.monotonic() - began < 10
    listening.close()
