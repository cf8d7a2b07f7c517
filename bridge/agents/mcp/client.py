"""One server as one run uses it: its tools and their calls. May be used by several threads."""

from __future__ import annotations

import threading
from typing import Any

from bridge.agents.mcp.channel import Channel, Headers, Stop
from bridge.agents.mcp.errors import McpError, McpStatus, RpcError
from bridge.agents.mcp.messages import UNSUPPORTED_VERSION
from bridge.agents.mcp.negotiation import KnownEras, begin_session
from bridge.agents.mcp.param_headers import param_headers
from bridge.agents.mcp.results import McpResult, read_result
from bridge.agents.mcp.sessions import Progress, Session, ignore
from bridge.agents.mcp.tool_list import McpTool, ToolList, read_tools
from bridge.gemini.types import EMPTY, JsonObject

MOST_PAGES = 64
MOST_TOOLS = 1024
TOOLS_CHANGED = "notifications/tools/list_changed"


class McpClient:
    def __init__(self, channel: Channel, known: KnownEras) -> None:
        self.tools_changed = False  #: the server says that its list is another one now
        self._channel = channel
        self._known = known
        self._session: Session | None = None
        self._lock = threading.Lock()

    @property
    def server(self) -> str:
        """The name of the server in messages."""
        return self._channel.server

    @property
    def holds_session(self) -> bool:
        """Whether the server keeps something for this client until it is told that the session ended."""
        return self._session is not None and self._session.must_be_ended

    def tools(self, stop: Stop) -> ToolList:
        """All pages of the list of tools."""
        listed: list[Any] = []
        cursors: set[str] = set()
        params: dict[str, Any] = {}
        while len(cursors) < MOST_PAGES:
            page = self._request("tools/list", params, stop)
            tools, cursor = page.get("tools"), page.get("nextCursor")
            listed += tools if isinstance(tools, list) else ()
            if len(listed) > MOST_TOOLS:
                raise McpError(f"{self.server} lists more than {MOST_TOOLS} tools.")
            if not isinstance(cursor, str) or not cursor:
                return read_tools(listed)
            if cursor in cursors:
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        raise McpError(f"The list of the tools of {self.server} has no end.")

    def call(
        self, tool: McpTool, arguments: JsonObject, stop: Stop, progress: Progress = ignore
    ) -> McpResult:
        params = {"name": tool.name, "arguments": dict(arguments)}
        headers = param_headers(tool.marked, arguments)
        return read_result(self._request("tools/call", params, stop, headers, progress))

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.end()

    def _request(
        self,
        method: str,
        params: JsonObject,
        stop: Stop,
        headers: Headers = EMPTY,
        progress: Progress = ignore,
    ) -> JsonObject:
        session = self._begun(stop)
        try:
            return session.request(method, params, stop, headers, progress)
        except (RpcError, McpStatus) as error:
            if not _speaks_another_era(error):
                raise
        self._forget(session)
        return self._begun(stop).request(method, params, stop, headers, progress)

    def _begun(self, stop: Stop) -> Session:
        with self._lock:
            if self._session is None:
                self._session = begin_session(self._channel, self._known, stop, self._notice)
            return self._session

    def _forget(self, session: Session) -> None:
        with self._lock:
            self._known.forget(self._channel.url)
            if self._session is session:
                self._session = None

    def _notice(self, method: str) -> None:
        if method == TOOLS_CHANGED:
            self.tools_changed = True


def _speaks_another_era(error: McpError) -> bool:
    """The server was updated, or set back, since its era was found out."""
    return isinstance(error, RpcError) and error.code == UNSUPPORTED_VERSION
