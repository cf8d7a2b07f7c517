"""A tool that sends one HTTP request to a server that the administrator named.

Parameters are encoded into the path and the query; what the address does not name goes into the body, or into
the query if the method has no body. No parameter can change the server, the port or the folder. A redirect is
not followed: it would lead elsewhere. Proxies of the environment are not used.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import orjson

from bridge import __version__
from bridge.agents.tool import Invocation, Tool, ToolDescription, ToolResult, failed
from bridge.settings.agents import PLACEHOLDER, HttpToolRow

WITH_BODY = ("POST", "PUT", "PATCH")
PIECE = 64 * 1024


class WrongParameter(Exception):
    """A value that the address cannot carry. The message is for the model."""


class HttpTool(Tool):
    def __init__(self, row: HttpToolRow) -> None:
        self._row = row
        parts = urlsplit(row.url)
        self._host, self._port = parts.hostname or "", parts.port
        self._tls = parts.scheme == "https"
        self._target = row.url.split("://", 1)[1].partition("/")[2]
        self.description = ToolDescription(
            row.name, row.description, row.parameters, row.read_only, row.unattended, row.time_limit
        )

    def invoke(self, invocation: Invocation) -> ToolResult:
        try:
            target, body = self._request(invocation.arguments)
        except WrongParameter as error:
            return failed(str(error))
        connection = self._connection(invocation.time_limit)
        try:
            connection.connect()
            invocation.cancellation.on_cancel(lambda: _interrupt(connection))
            connection.request(self._row.method, target, body, self._headers(body))
            return self._result(connection.getresponse())
        except TimeoutError:
            return failed(f"The server did not respond within {invocation.time_limit:g} seconds.")
        except (OSError, HTTPException) as error:
            return failed(f"The server cannot be reached: {type(error).__name__}.")
        finally:
            connection.close()

    def _connection(self, seconds: float) -> HTTPConnection:
        if self._tls:
            return HTTPSConnection(self._host, self._port, timeout=seconds, context=_tls_context())
        return HTTPConnection(self._host, self._port, timeout=seconds)

    # --- the request ---------------------------------------------------------------------------------

    def _request(self, arguments: Mapping[str, Any]) -> tuple[str, bytes | None]:
        """The path with the query, and the body."""
        path, mark, query = self._target.partition("?")
        filled = "/" + _filled(path, arguments)
        if not {".", ".."}.isdisjoint(filled.split("/")):
            raise WrongParameter("No part of the path may be . or .. alone.")
        target = filled + mark + _filled(query, arguments)
        named = set(PLACEHOLDER.findall(self._target))
        others = {name: value for name, value in arguments.items() if name not in named}
        if self._row.method in WITH_BODY:
            return target, orjson.dumps(others)
        if others:
            texts = {name: _text(name, value) for name, value in others.items()}
            target += ("&" if mark else "?") + urlencode(texts)
        return target, None

    def _headers(self, body: bytes | None) -> dict[str, str]:
        sent = {"User-Agent": f"gemini-bridge/{__version__}", "Accept": "application/json, text/*;q=0.9"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        return {**sent, **self._row.headers}

    # --- the response --------------------------------------------------------------------------------

    def _result(self, response: HTTPResponse) -> ToolResult:
        if 300 <= response.status < 400:
            return failed(f"The server redirects (status {response.status}), which is not followed.")
        most = self._row.max_kb * 1024
        content = bytearray()
        while piece := response.read(PIECE):
            content += piece
            if len(content) > most:
                return failed(f"The response is larger than {self._row.max_kb} KB.")
        value = _value(response.getheader("Content-Type", ""), bytes(content))
        if 200 <= response.status < 300:
            return ToolResult({"output": value})
        return ToolResult(
            {"error": f"The server responded with status {response.status}.", "body": value}, True
        )


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _interrupt(connection: HTTPConnection) -> None:
    """Wake the thread that reads from the connection."""
    sock = connection.sock
    with suppress(OSError):  # it may be closed already
        if sock is not None:
            sock.shutdown(SHUT_RDWR)


def _filled(template: str, arguments: Mapping[str, Any]) -> str:
    def value(name: str) -> str:
        if name not in arguments:
            raise WrongParameter(f"The parameter {name!r} is missing.")
        text = _text(name, arguments[name])
        if not text:
            raise WrongParameter(f"The parameter {name!r} must not be empty.")
        return quote(text, safe="")

    return PLACEHOLDER.sub(lambda found: value(found[1]), template)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise WrongParameter(f"The parameter {name!r} is not valid text.") from None
        return value
    if isinstance(value, int | float):
        return str(value)
    return orjson.dumps(value).decode()


def _value(content_type: str, content: bytes) -> Any:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError:
            pass
    return content.decode("utf-8", "replace")
