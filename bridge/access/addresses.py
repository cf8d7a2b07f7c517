"""The address of a client: the peer of the connection, or the address that a trusted proxy reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    return tuple(ip_network(text, strict=False) for text in texts)


def address(text: str) -> Address | None:
    """Accepts a port, brackets, and IPv4 addresses in the form of IPv6; None if the text is no address."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ip_address(host)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def is_in_networks(found: Address | None, ranges: Sequence[Network]) -> bool:
    return found is not None and any(found in each for each in ranges)


def is_local(host: str) -> bool:
    """Whether a server on this address can be reached only from its own machine."""
    found = address(host)
    return host == "localhost" or (found is not None and found.is_loopback)


def client_address(peer: str, forwarded: str, trusted: Sequence[Network]) -> Address | None:
    """The nearest address that does not belong to a trusted proxy.

    Each proxy appends the address of its peer, so a client can forge everything before the first untrusted
    address from the end. A peer without an address is a process on a Unix socket, and is trusted.
    """
    claimed = [text for text in forwarded.split(",") if text.strip()]
    if peer and not is_in_networks(address(peer), trusted):
        return address(peer)
    for text in reversed(claimed):
        found = address(text)
        if not is_in_networks(found, trusted):
            return found
    return address(claimed[0] if claimed else peer)
