"""Agents and their tools, from the files of `config/agents/`.

All files together are one configuration: an agent may use a tool of another file. No file holds a secret:
headers name the variable or the systemd credential that holds it. Nothing here starts a process or reads a
tool from a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from bridge.settings.guards import PolicyRule
from bridge.settings.mcp_servers import McpServerRow, read_mcp_server
from bridge.settings.patterns import checked_pattern
from bridge.settings.references import header_value
from bridge.settings.source import label, read_toml
from bridge.settings.value import (
    MatchesPattern,
    OneOf,
    Range,
    SettingsError,
    read_table,
    shape_of,
    shapes,
    suggestion,
)

FOLDER = "agents"
PREFIX = "agent/"  #: of an agent's name as a model

Name = Annotated[
    str, MatchesPattern(r"[a-z0-9][a-z0-9_-]{0,31}", " of at most 32 lower-case letters, digits, - and _")
]
Seconds = Annotated[float, Range(1, 3600)]
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
READING_METHODS = ("GET",)

_SERVER = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/")
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")  #: a parameter in an address


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    name: Name
    model: str
    instruction: str
    description: str = ""
    query: str = "{{query}}"  #: the template of the first question
    tools: tuple[str, ...] = ()  #: function names, or patterns such as `docs__*`
    agents: tuple[str, ...] = ()  #: other agents that it may call as tools
    output: Mapping[str, Any] = field(default_factory=dict)  #: JSON Schema of the result
    temperature: Annotated[float | None, Range(0, 2)] = None
    rounds: Annotated[int, Range(1, 1000)] = 30
    seconds: Annotated[float, Range(1, 86400)] = 600.0
    tokens: Annotated[int, Range(0)] = 0  #: of all rounds together; 0: no limit

    @property
    def model_name(self) -> str:
        return PREFIX + self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRow:
    name: Name
    folder: Path
    description: str = ""
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpToolRow:
    name: Name
    description: str
    url: str  #: a template: `{name}` is a parameter
    method: Annotated[str, OneOf(METHODS)] = "GET"
    parameters: Mapping[str, Any] = field(default_factory=dict)  #: JSON Schema
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_only: bool = False
    unattended: bool = False
    time_limit: Seconds = 30.0
    max_kb: Annotated[int, Range(1, 65536)] = 1024


@dataclass(frozen=True, slots=True)
class AgentSettings:
    agents: tuple[AgentRow, ...] = ()
    workspaces: tuple[WorkspaceRow, ...] = ()
    http_tools: tuple[HttpToolRow, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    mcp_servers: tuple[McpServerRow, ...] = ()
    built_in: bool = False  #: they are those of the demo model

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in the log."""
        headers = (value for tool in self.http_tools for value in tool.headers.values())
        return (*headers, *(secret for server in self.mcp_servers for secret in server.secrets))

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names as models."""
        return tuple(agent.model_name for agent in self.agents)


Row = TypeVar("Row")


def load_agents(
    folder: Path, environ: Mapping[str, str], base: Path, allowed_hosts: Collection[str] = ()
) -> AgentSettings:
    """The configuration of all files in the folder. Folders of workspaces are relative to `base`.
    `allowed_hosts`: the hosts of MCP servers that may be reached without encryption."""
    files = sorted(folder.glob("*.toml"))
    found = [_read(path, environ, base, allowed_hosts) for path in files]
    rows = {name: [row for each in found for row in each[name]] for name in _TABLES}
    settings = AgentSettings(
        tuple(rows["agent"]),
        tuple(rows["workspace"]),
        tuple(rows["http"]),
        tuple(rows["rule"]),
        tuple(rows["mcp_server"]),
    )
    _check_names("agent", (row.name for row in settings.agents))
    _check_names("tool", (row.name for name in ("workspace", "http", "mcp_server") for row in rows[name]))
    for agent in settings.agents:
        _check_agents(agent, settings)
    return settings


_TABLES = ("agent", "workspace", "http", "rule", "mcp_server")


def _read(
    path: Path, environ: Mapping[str, str], base: Path, allowed_hosts: Collection[str]
) -> Mapping[str, list[Any]]:
    """The rows of one file by the name of their table."""
    where, written = label(path), read_toml(path)
    for name in written:
        if name not in _TABLES:
            raise SettingsError(f"{where}: {name} is unknown; {suggestion(name, _TABLES)}")
    rows = {name: list(_numbered(where, name, written.get(name, []))) for name in _TABLES}
    readers: Mapping[str, Callable[[str, dict[str, Any]], Any]] = {
        "agent": lambda place, row: _row(place, AgentRow, row),
        "workspace": lambda place, row: _workspace(place, row, base),
        "http": lambda place, row: _http_tool(place, row, environ),
        "rule": _rule,
        "mcp_server": lambda place, row: read_mcp_server(place, row, environ, allowed_hosts),
    }
    return {name: [readers[name](place, row) for place, row in rows[name]] for name in _TABLES}


def _numbered(where: str, name: str, rows: object) -> Iterator[tuple[str, dict[str, Any]]]:
    listed = shape_of(list[dict[str, Any]]).read(f"{where}: {name}", rows)
    for number, row in enumerate(listed, start=1):
        yield f"{where}: [[{name}]] {number}", row


def _row(where: str, owner: type[Row], written: dict[str, Any]) -> Row:
    values = read_table(where, shapes(owner), written)
    for each in fields(owner):  # type: ignore[arg-type]
        if each.default is MISSING and each.default_factory is MISSING and each.name not in values:
            raise SettingsError(f"{where}: {each.name} is missing")
    return owner(**values)


def _rule(where: str, written: dict[str, Any]) -> PolicyRule:
    rule = _row(where, PolicyRule, written)
    if not rule.args_pattern:
        return rule
    pattern = written["args_pattern"]  # read_table strips spaces, which matter in a pattern
    checked_pattern(pattern, f"{where}: args_pattern")
    return replace(rule, args_pattern=pattern)


def _workspace(where: str, written: dict[str, Any], base: Path) -> WorkspaceRow:
    row = _row(where, WorkspaceRow, written)
    folder = base / row.folder
    if not folder.is_dir():
        raise SettingsError(f"{where}: folder: {folder} is not a folder")
    return replace(row, folder=folder)


def _http_tool(where: str, written: dict[str, Any], environ: Mapping[str, str]) -> HttpToolRow:
    row = _row(where, HttpToolRow, written)
    _check_address(f"{where}: url", row)
    reads = row.method in READING_METHODS
    read_only = written.get("read_only", reads)
    return replace(
        row,
        read_only=read_only,
        unattended=written.get("unattended", read_only),
        headers={
            name: header_value(f"{where}: headers: {name}", name, text, environ)
            for name, text in row.headers.items()
        },
    )


def _check_address(where: str, row: HttpToolRow) -> None:
    """The parameters may not reach the part of the address that names the server."""
    server = _SERVER.match(row.url)
    if server is None or not row.url.isascii() or re.search(r"[\s\\#]", row.url):
        raise SettingsError(
            f"{where} must be http:// or https://, a server without user and parameters, and a path that "
            "begins with /; it may have a query, and no fragment"
        )
    declared = row.parameters.get("properties")
    for name in PLACEHOLDER.findall(row.url):
        if not isinstance(declared, dict) or name not in declared:
            raise SettingsError(f"{where}: {{{name}}} is not among the properties of parameters")


def _check_names(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SettingsError(f"config/{FOLDER}: name: there are two of the kind {kind} named {name}")
        seen.add(name)


def _check_agents(agent: AgentRow, settings: AgentSettings) -> None:
    known = [each.name for each in settings.agents]
    for name in agent.agents:
        if name not in known:
            raise SettingsError(
                f"config/{FOLDER}: agent {agent.name}: agents: there is no agent {name!r}; "
                f"{suggestion(name, known)}"
            )
