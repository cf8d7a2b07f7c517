"""What can go wrong with an MCP server. The messages are for the model: no secrets, no arguments."""

from __future__ import annotations

from typing import Any


class McpError(Exception):
    pass


class McpStopped(McpError):
    """The caller no longer wants the answer."""


class McpTimeout(McpError):
    """The server did not answer in time."""


class McpStatus(McpError):
    """The server refused a request by its HTTP status alone."""

    def __init__(self, server: str, status: int) -> None:
        super().__init__(f"{server} refused the request with status {status}.")
        self.status = status


class SessionGone(McpError):
    """The server does not know the session; a new one may be begun."""


class RpcError(McpError):
    """An error of JSON-RPC. Its text is the server's own."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
