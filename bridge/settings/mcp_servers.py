"""The MCP servers of the administrator: the tables `[[mcp_server]]` of `config/agents/*.toml`.

A file holds no secret: a header names the variable or the systemd credential that holds its value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

from bridge.gemini.hosted_servers import header_problem, secrets_in_headers
from bridge.settings.references import header_value
from bridge.settings.value import MatchesPattern, Range, SettingsError, Shape, WebAddress, read_table, shapes

Name = Annotated[
    str, MatchesPattern(r"[a-z0-9][a-z0-9_-]{0,31}", " of at most 32 lower-case letters, digits, - and _")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerRow:
    """One server. `config/agents/README.md` describes the values."""

    name: Name
    url: Annotated[str, WebAddress()]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed_tools: tuple[str, ...] = ()  #: empty: all that the server lists
    read_only: tuple[str, ...] = ()  #: the tools that change nothing
    unattended: tuple[str, ...] = ()  #: the tools that need no approval, beside those in read_only
    trust_annotations: bool = False  #: what the server says about its own tools counts
    hosted: bool = False  #: requests may name the server for the bridge to call
    time_limit: Annotated[float, Range(1, 3600)] = 30.0

    @property
    def secrets(self) -> tuple[str, ...]:
        """The credentials in the headers, without a word such as `Bearer`."""
        return secrets_in_headers(self.headers.items())


ROW: Mapping[str, Shape] = shapes(McpServerRow)


def read_mcp_server(
    where: str, written: Mapping[str, Any], environ: Mapping[str, str], allowed_hosts: Collection[str]
) -> McpServerRow:
    """`allowed_hosts`: the hosts to which the administrator allows plain http."""
    values = read_table(where, ROW, written)
    for name in ("name", "url"):
        if name not in values:
            raise SettingsError(f"{where}: {name} is missing")
    if "__" in values["name"]:
        raise SettingsError(f"{where}: name must not contain __, which separates it from the names of tools")
    _check_encryption(where, values["url"], allowed_hosts)
    headers = values.pop("headers", {})
    found = {name: _header(f"{where}: headers.{name}", name, each, environ) for name, each in headers.items()}
    return McpServerRow(**values, headers=found)


def _check_encryption(where: str, url: str, allowed_hosts: Collection[str]) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or is_loopback(parts.hostname or "") or parts.netloc in allowed_hosts:
        return
    raise SettingsError(
        f"{where}: url: plain http is for this machine only; use https, or name the host in mcp.allowed_hosts"
    )


def is_loopback(host: str) -> bool:
    """Whether the host names this machine by its own text, without a look-up."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _header(where: str, name: str, text: str, environ: Mapping[str, str]) -> str:
    value = header_value(where, name, text, environ)
    if (problem := header_problem(name, value)) is not None:
        raise SettingsError(f"{where} {problem}")
    return value
