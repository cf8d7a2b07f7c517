"""Where an MCP server is, and which of its network addresses the bridge may connect to.

A name is resolved once for each connection, every address is checked, and the connection goes to an address
that was checked: a name cannot change its meaning between the check and the connection.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import quote

from bridge.agents.mcp.errors import McpError
from bridge.fetch.network import Deadline, Network, connect_to
from bridge.fetch.public_addresses import is_public
from bridge.gemini.media import web_address

PORTS = {"https": 443, "http": 80}
MOST_ADDRESSES = 4  #: of one host that are tried
_URL_CHARACTERS = "!$&'()*+,-./:;=?@_~%[]"
LOOPBACK_NAME = "localhost"
#: Metadata services outside of the link-local ranges: Azure's, Amazon's over IPv6, Alibaba's.
METADATA = frozenset(map(ip_address, ("168.63.129.16", "fd00:ec2::254", "100.100.100.200")))


@dataclass(frozen=True, slots=True)
class McpAddress:
    url: str
    scheme: str
    host: str
    port: int
    target: str  #: path and query

    @classmethod
    def parse(cls, url: str) -> McpAddress:
        """Raises ValueError whose text completes the sentence "url …"."""
        parts = web_address(url, PORTS)
        if parts is None or parts.fragment:
            raise ValueError("must be a complete https address, without user, password, spaces or fragment")
        try:
            host = (parts.hostname or "").encode("idna").decode().lower()
        except UnicodeError:
            raise ValueError("has a host name that is not valid") from None
        target = quote(parts.path or "/", safe=_URL_CHARACTERS)
        if parts.query:
            target += "?" + quote(parts.query, safe=_URL_CHARACTERS)
        return cls(url, parts.scheme, host, parts.port or PORTS[parts.scheme], target)

    @property
    def host_field(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the host names this machine by its own text, without a look-up."""
        literal = _literal(self.host)
        return self.host == LOOPBACK_NAME or (literal is not None and literal.is_loopback)

    @property
    def names_itself(self) -> bool:
        """Whether the host is an IP address or `localhost`: no look-up can change what it means."""
        return self.host == LOOPBACK_NAME or _literal(self.host) is not None


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


@lru_cache(1)
def _tls() -> ssl.SSLContext:
    """Made once: it reads all certificate authorities of the system."""
    return ssl.create_default_context()


def network_of(address: McpAddress) -> Network:
    return Network(_tls(), connect=partial(connect_to, address.port))


@dataclass(frozen=True, slots=True)
class CheckedRoute:
    """Opens connections to one address. `private`: the administrator's file names this host, so that it may
    be in a private network."""

    address: McpAddress
    network: Network
    private: bool = False

    def open(self, seconds: float, server: str) -> socket.socket:
        deadline, host = Deadline(seconds), self.address.host
        try:
            plain = self.network.first_open(self._addresses(deadline, server), deadline)
            return self.network.encrypted(plain, host, deadline) if self.address.scheme == "https" else plain
        except TimeoutError:
            raise McpError(f"{server} did not accept a connection in time.") from None
        except (OSError, UnicodeError) as error:
            raise McpError(f"{server} could not be reached ({type(error).__name__}).") from None

    def _addresses(self, deadline: Deadline, server: str) -> list[str]:
        """The same message for every host that is refused: it does not tell which names a network knows."""
        try:
            found = self.network.addresses(self.address.host, deadline)
        except TimeoutError:
            raise
        except (OSError, UnicodeError):
            found = []
        allowed = _may_be_named if self.private else is_public
        if not found or not all(map(allowed, found)):
            raise McpError(f"{server} is not at an address that the bridge may connect to.")
        return found[:MOST_ADDRESSES]


def _may_be_named(address: str) -> bool:
    """Link-local addresses hold the metadata services of clouds; no MCP server runs there."""
    literal = _literal(address)
    return literal is not None and not _is_special(getattr(literal, "ipv4_mapped", None) or literal)


def _is_special(address: IPv4Address | IPv6Address) -> bool:
    return address.is_link_local or address.is_multicast or address.is_unspecified or address in METADATA
