"""The client address of a request."""

from __future__ import annotations

import pytest

from bridge.access.addresses import address, client_address, is_in_networks, is_local, networks

LOOPBACK = networks(["127.0.0.0/8", "::1"])
PROXIES = networks(["127.0.0.0/8", "10.9.0.0/16"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "expected"),
    [
        ("10.1.2.3", "", LOOPBACK, "10.1.2.3"),
        ("10.1.2.3", "1.1.1.1", LOOPBACK, "10.1.2.3"),  # any client can send the header
        ("127.0.0.1", "10.1.2.3", LOOPBACK, "10.1.2.3"),
        ("127.0.0.1", "10.1.2.3", (), "127.0.0.1"),
        ("127.0.0.1", "", LOOPBACK, "127.0.0.1"),
        ("::1", "10.1.2.3", LOOPBACK, "10.1.2.3"),
        ("127.0.0.1", "6.6.6.6, 10.1.2.3", LOOPBACK, "10.1.2.3"),  # the client forged the first address
        ("127.0.0.1", "6.6.6.6, 10.1.2.3, 10.9.0.1", PROXIES, "10.1.2.3"),
        ("127.0.0.1", "10.9.0.2, 10.9.0.1", PROXIES, "10.9.0.2"),
        ("", "10.1.2.3", LOOPBACK, "10.1.2.3"),  # a local socket
        ("", "", LOOPBACK, None),
        ("127.0.0.1", "nonsense", LOOPBACK, None),
        ("127.0.0.1", "10.1.2.3, nonsense", LOOPBACK, None),
        ("127.0.0.1", " , ,10.1.2.3, ", LOOPBACK, "10.1.2.3"),
        ("::ffff:10.1.2.3", "", LOOPBACK, "10.1.2.3"),
        ("::ffff:127.0.0.1", "10.1.2.3", LOOPBACK, "10.1.2.3"),
        ("127.0.0.1", "10.1.2.3:5555", LOOPBACK, "10.1.2.3"),
        ("127.0.0.1", "[fd00::1]:5555", LOOPBACK, "fd00::1"),
        ("127.0.0.1", "fd00::1", LOOPBACK, "fd00::1"),
    ],
)
def test_forwarded_headers_are_used_only_from_a_trusted_proxy(peer, forwarded, trusted, expected) -> None:
    found = client_address(peer, forwarded, trusted)
    assert found == (None if expected is None else address(expected))


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("bridge.example", False),
        ("unix:/run/bridge.sock", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_recognised(host: str, local: bool) -> None:
    assert is_local(host) == local


def test_a_range_matches_only_its_address_family() -> None:
    ranges = networks(["10.0.0.0/8", "fd00::/8"])
    assert is_in_networks(address("10.255.0.1"), ranges)
    assert is_in_networks(address("::ffff:10.0.0.1"), ranges)
    assert is_in_networks(address("fdff::1"), ranges)
    assert not is_in_networks(address("11.0.0.1"), ranges)
    assert not is_in_networks(address("::10.0.0.1"), ranges)
    assert not is_in_networks(None, ranges)
