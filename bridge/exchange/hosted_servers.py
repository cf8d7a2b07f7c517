"""Answers with tools of servers that requests name. `bridge/agents/` is imported when one is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bridge.errors import BridgeError
from bridge.exchange.agents import AskModel, asking_while_permitted
from bridge.gemini.hosted_servers import HostedRequest, HostedServer
from bridge.gemini.types import GenerateRequest
from bridge.settings import Settings
from bridge.upstream.base import AnswerStream

if TYPE_CHECKING:
    from bridge.agents.mcp.hosted_servers import HostedServers
    from bridge.agents.mcp.server import McpServer


class HostedAnswers:
    """The servers that requests of one process may name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        rows = settings.agents.mcp_servers if settings.agents else ()
        self._any_allowed = bool(settings.mcp.allowed_hosts) or any(row.hosted for row in rows)
        self._lock = threading.Lock()
        self._servers: HostedServers | None = None

    def found(self, hosted: HostedRequest) -> tuple[Sequence[tuple[HostedServer, McpServer]], Sequence[str]]:
        """The servers that the bridge may call, and the losses of the others."""
        if not self._any_allowed:
            return (), losses_of(hosted.servers)
        pairs = [(named, self._hosted_servers().find(named)) for named in hosted.servers]
        lost = [named for named, server in pairs if server is None]
        return [(named, server) for named, server in pairs if server is not None], losses_of(lost)

    def answer(
        self,
        asked: GenerateRequest,
        hosted: HostedRequest,
        servers: Sequence[tuple[HostedServer, McpServer]],
        ask: AskModel,
        new_id: Callable[[str], str],
        refusal: Callable[[], BridgeError | None],
    ) -> AnswerStream:
        """A run with the tools of these servers. `refusal` is asked before each round but the first."""
        from bridge.agents.call_policy import CallPolicy
        from bridge.agents.mcp.hosted_run import HostedRun

        rules = self._settings.agents.rules if self._settings.agents else ()
        policy = CallPolicy(self._settings.guards, rules)
        return HostedRun(asked, hosted, servers, asking_while_permitted(ask, refusal), policy, new_id)

    def _hosted_servers(self) -> HostedServers:
        with self._lock:
            if self._servers is None:
                from bridge.agents.mcp.hosted_servers import HostedServers

                rows = self._settings.agents.mcp_servers if self._settings.agents else ()
                self._servers = HostedServers(rows, self._settings.mcp.allowed_hosts)
            return self._servers


def losses_of(servers: Sequence[HostedServer]) -> Sequence[str]:
    return [loss for named in servers for loss in named.losses]
