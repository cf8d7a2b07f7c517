"""Servers of tools that a request names for the bridge to call, and the client's rules for their tools.

The administrator decides whether the bridge may call a server. Credentials in a request are for its server
alone: they appear in no answer, store or log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from bridge.gemini.hosted_tools import HostedCall
from bridge.gemini.types import JsonObject, value_type

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
#: Fields that decide where a message ends, whom it is for or what it says: the bridge sets them itself.
_OWN_FIELDS = re.compile(
    r"host|connection|transfer-encoding|te|upgrade|expect|trailer|accept|accept-encoding|content-.*|mcp-.*",
    re.IGNORECASE,
)


def header_problem(name: str, value: str) -> str | None:
    """Why a header cannot be sent to a server; None if it can."""
    if not _NAME.fullmatch(name):
        return "is not the name of an HTTP header"
    if _OWN_FIELDS.fullmatch(name):
        return "is a header that the bridge sets itself"
    return None if _VALUE.fullmatch(value) else "must be one line of ASCII characters"


#: Names of headers that carry credentials.
_SECRET = re.compile(r"auth|cookie|credential|key|password|secret|session|token", re.IGNORECASE)


def secrets_in_headers(headers: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The credentials in the headers, without a word such as `Bearer`."""
    return tuple(value.rpartition(" ")[2] for name, value in headers if _SECRET.search(name))


@value_type
class ToolFilter:
    """A tool matches if each criterion that is there matches."""

    names: tuple[str, ...] | None = None
    read_only: bool | None = None

    def matches(self, name: str, read_only: bool) -> bool:
        named = self.names is None or name in self.names
        return named and self.read_only in (None, read_only)


EVERY_TOOL = ToolFilter()
NO_TOOL = ToolFilter(names=())


@value_type
class HostedServer:
    label: str  #: in the names of functions and in the answer
    place: str  #: the name of a server of the administrator, or an address
    losses: tuple[str, ...]  #: their names, if the bridge may not call the server
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    allowed: ToolFilter = EVERY_TOOL
    forbidden: ToolFilter = NO_TOOL  #: of those that are allowed
    needs_approval: ToolFilter = NO_TOOL
    needs_none: ToolFilter = NO_TOOL
    approval_by_default: bool = False

    def offers(self, name: str, read_only: bool) -> bool:
        return self.allowed.matches(name, read_only) and not self.forbidden.matches(name, read_only)

    def asks_for(self, name: str, read_only: bool) -> bool:
        """Whether the client wants to approve calls of this tool."""
        if self.needs_approval.matches(name, read_only):
            return True
        return self.approval_by_default and not self.needs_none.matches(name, read_only)


@value_type
class HostedRequest:
    """What a request wants of the servers that the bridge calls."""

    servers: tuple[HostedServer, ...] = ()
    #: The lists of tools that the conversation holds already, by the label of their server.
    listed: Mapping[str, Sequence[JsonObject]] = field(default_factory=dict, hash=False)
    approved: tuple[HostedCall, ...] = ()  #: calls to make before the model is asked
    most_calls: int | None = None
    can_ask: bool = False  #: the protocol can ask the client to approve a call
