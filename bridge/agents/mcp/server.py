"""The administrator's MCP servers, as sources of tools for runs.

The list of tools is shared by the runs of a process for a minute. A run keeps the list that it began with: if
the server changes its tools later, the run goes on with what it knew, and a warning says so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from bridge.agents.cancellation import Cancellation
from bridge.agents.mcp.address import CheckedRoute, McpAddress, network_of
from bridge.agents.mcp.channel import Channel, McpLimits, Stop
from bridge.agents.mcp.client import McpClient
from bridge.agents.mcp.errors import McpError, McpStopped
from bridge.agents.mcp.negotiation import KnownEras
from bridge.agents.mcp.tool_list import McpTool, ToolList, read_tools
from bridge.agents.tool import (
    Invocation,
    Tool,
    ToolDescription,
    ToolResult,
    ToolSource,
    ToolSourceFailed,
    failed,
)
from bridge.fetch.network import Network
from bridge.gemini.types import JsonObject
from bridge.settings.mcp_servers import McpServerRow

LIST_SECONDS = 60.0  #: how long a list of tools is taken for current
TOOLS_CHANGED = "mcp.tools_changed"

_log = logging.getLogger(__name__)


class McpServer:
    """One server, for all runs of this process."""

    def __init__(
        self,
        row: McpServerRow,
        network: Network | None = None,
        private: bool = True,
        list_seconds: float = LIST_SECONDS,
    ) -> None:
        address = McpAddress.parse(row.url)
        self.row = row
        self._route = CheckedRoute(address, network or network_of(address), private)
        self._limits = McpLimits(min(10.0, row.time_limit), row.time_limit)
        self._known = KnownEras()
        self._list_seconds = list_seconds
        self._lock = threading.Lock()
        self._list: ToolList | None = None
        self._listed = 0.0

    def client(self) -> McpClient:
        channel = Channel(self._route, self.row.name, self._limits, tuple(self.row.headers.items()))
        return McpClient(channel, self._known)

    def current_list(self, client: McpClient, stop: Stop) -> ToolList:
        """The server's list of tools, asked for again if it may be another one now. Two runs may ask at the
        same time: waiting for the other one would add up the delays of a slow server."""
        listed, fresh = self._list, time.monotonic() - self._listed < self._list_seconds
        if listed is not None and fresh and not client.tools_changed:
            return listed
        client.tools_changed = False
        listed = client.tools(stop)
        with self._lock:
            before, self._list, self._listed = self._list, listed, time.monotonic()
        self._report(before, listed)
        return listed

    def _report(self, before: ToolList | None, now: ToolList) -> None:
        name, named = self.row.name, {*self.row.allowed_tools, *self.row.read_only, *self.row.unattended}
        if before is not None and before.digest == now.digest:
            return
        if before is not None:
            _log.warning("the MCP server %s changed its tools: %s", name, _difference(before, now))
        for broken in now.broken:
            _log.warning("the MCP server %s has a tool %r that cannot be used: %s", name, *broken)
        for missing in sorted(named - {tool.name for tool in now.tools}):
            _log.warning("the MCP server %s has no tool %r, which the settings name", name, missing)


def _difference(before: ToolList, now: ToolList) -> str:
    old, new = ({tool.name: tool for tool in listed.tools} for listed in (before, now))
    changes = {
        "added": new.keys() - old.keys(),
        "removed": old.keys() - new.keys(),
        "changed": {name for name in old.keys() & new.keys() if old[name] != new[name]},
    }
    texts = [f"{kind} {', '.join(sorted(names))}" for kind, names in changes.items() if names]
    return "; ".join(texts) or "what it says beside their schemas"


class McpServerTools(ToolSource):
    """The tools of a server of the administrator, for any number of runs."""

    def __init__(self, row: McpServerRow) -> None:
        self.label = row.name
        self._server = McpServer(row)

    def tools(self, cancellation: Cancellation) -> Sequence[Tool]:
        return McpServerInRun(self._server).tools(cancellation)


class McpServerInRun(ToolSource):
    """One server in one run. `label`: its name there. `listed`: the tools that the conversation knows."""

    def __init__(
        self,
        server: McpServer,
        label: str = "",
        listed: Sequence[JsonObject] | None = None,
        *,
        unattended: bool = False,
    ) -> None:
        """`unattended`: somebody else decides which calls need approval."""
        self.label = label or server.row.name
        self._known = None if listed is None else read_tools([_as_listed(each) for each in listed])
        self._server = server
        self._unattended = unattended
        self._client = server.client()
        self._digest = ""
        self._warned = False

    def tools(self, cancellation: Cancellation) -> Sequence[McpServerTool]:
        """The session with the server lasts until the run is cancelled, which it also is at its end."""
        listed = self._known or self._listed(cancellation)
        cancellation.on_cancel(self._end)
        allowed = self._server.row.allowed_tools
        return [McpServerTool(self, tool) for tool in listed.tools if not allowed or tool.name in allowed]

    def _listed(self, cancellation: Cancellation) -> ToolList:
        try:
            listed = self._server.current_list(self._client, lambda: cancellation.cancelled)
        except McpError as error:
            raise ToolSourceFailed(str(error)) from None
        self._digest = listed.digest
        return listed

    def describe(self, tool: McpTool) -> ToolDescription:
        row = self._server.row
        read_only = tool.name in row.read_only or (row.trust_annotations and tool.says_read_only)
        return ToolDescription(
            name=tool.name,
            description=tool.description,
            parameters=tool.prepared,
            read_only=read_only,
            unattended=self._unattended or read_only or tool.name in row.unattended,
            time_limit=row.time_limit,
            server=self.label,
        )

    def call(self, tool: McpTool, invocation: Invocation) -> ToolResult:
        def stop() -> bool:
            return invocation.cancellation.cancelled

        try:
            noted = self._notice_changes(stop)
            result = self._client.call(tool, invocation.arguments, stop, invocation.output)
        except McpStopped:
            return failed("The call was cancelled.")
        except McpError as error:
            return failed(str(error))
        return ToolResult(
            result.response, result.is_error, tuple(result.media), notes=(*noted, *result.losses)
        )

    def _notice_changes(self, stop: Stop) -> Sequence[str]:
        """The note of a list of tools that is another one than at the beginning of the run."""
        if self._known is not None or self._warned:
            return ()
        if self._server.current_list(self._client, stop).digest == self._digest:
            return ()
        self._warned = True
        _log.warning("a run goes on with the tools of %s that it began with", self.label)
        return (TOOLS_CHANGED,)

    def _end(self) -> None:
        """The run ended. Nobody waits until the server has ended its session."""
        if self._client.holds_session:
            threading.Thread(target=self._client.close, name="mcp-end", daemon=True).start()


def _as_listed(shown: JsonObject) -> JsonObject:
    """A tool as its server lists it, from a list in a conversation."""
    return {**shown, "inputSchema": shown.get("input_schema", shown.get("inputSchema"))}


class McpServerTool(Tool):
    def __init__(self, source: McpServerInRun, tool: McpTool) -> None:
        self.description = source.describe(tool)
        self._source = source
        self._tool = tool

    @property
    def listed(self) -> JsonObject:
        """As lists of tools in answers show it."""
        tool = self._tool
        return {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.schema,
            "annotations": dict(tool.annotations) or None,
        }

    def invoke(self, invocation: Invocation) -> ToolResult:
        return self._source.call(self._tool, invocation)
