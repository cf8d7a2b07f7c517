"""Which IP addresses the bridge may fetch from: those of the public Internet alone."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

#: Not public, or special, beside what `ipaddress` knows as such.
_SPECIAL_IPV4 = tuple(
    map(
        IPv4Network,
        (
            "100.64.0.0/10",  # carrier-grade NAT; some clouds keep their metadata service there
            "168.63.129.16/32",  # Azure's platform service, behind a public number
            "192.0.0.0/24",  # protocol assignments; Oracle's metadata service
            "192.88.99.0/24",  # relays of 6to4
            "240.0.0.0/4",
        ),
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
#: Within global unicast: tunnels to IPv4 addresses (Teredo, 6to4), documentation and other special uses.
_SPECIAL_IPV6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))


def is_public(address: str) -> bool:
    """IPv4 addresses inside of IPv6 addresses (mapped, NAT64) are outside of global unicast."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return _is_public_ipv4(parsed) if isinstance(parsed, IPv4Address) else _is_public_ipv6(parsed)


def _is_public_ipv4(address: IPv4Address) -> bool:
    special = any(address in network for network in _SPECIAL_IPV4)
    return address.is_global and not address.is_multicast and not special


def _is_public_ipv6(address: IPv6Address) -> bool:
    special = any(address in network for network in _SPECIAL_IPV6)
    return address in _GLOBAL_UNICAST and address.is_global and not special
