"""Which servers a request may name: those that the administrator offers, and those at allowed hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from bridge.agents.mcp.address import McpAddress
from bridge.agents.mcp.server import McpServer
from bridge.gemini.hosted_servers import HostedServer
from bridge.settings.mcp_servers import McpServerRow


class HostedServers:
    """`rows`: all servers of the administrator; a request may name those with `hosted = true`."""

    def __init__(self, rows: Iterable[McpServerRow], allowed_hosts: Collection[str]) -> None:
        offered = [row for row in rows if row.hosted]
        self._rows: Mapping[str, McpServerRow] = {
            **{row.url: row for row in offered},
            **{row.name: row for row in offered},
        }
        self._servers = {row.name: McpServer(row) for row in offered}
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)

    def find(self, named: HostedServer) -> McpServer | None:
        """The server to call for this request; None if the bridge may not call it."""
        row = self._rows.get(named.place)
        if row is None:
            return self._at_allowed_host(named)
        if not named.headers:
            return self._servers[row.name]
        # The list of tools may depend on the caller's credentials, so that it is not shared.
        return McpServer(replace(row, headers=_joined(named.headers, row.headers)))

    def _at_allowed_host(self, named: HostedServer) -> McpServer | None:
        try:
            address = McpAddress.parse(named.place)
        except ValueError:
            return None
        if address.host_field not in self._allowed_hosts:
            return None
        if address.scheme != "https" and not address.is_loopback:
            return None
        row = McpServerRow(name=named.label, url=named.place, headers=dict(named.headers))
        # An address or `localhost` in the list means itself; a name may only mean public addresses.
        return McpServer(row, private=address.names_itself)


def _joined(callers: Sequence[tuple[str, str]], own: Mapping[str, str]) -> dict[str, str]:
    """The administrator's headers come first."""
    set_already = {name.lower() for name in own}
    return {**{name: value for name, value in callers if name.lower() not in set_already}, **own}
