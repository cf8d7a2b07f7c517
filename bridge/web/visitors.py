"""Decides from which addresses the pages and metrics for operators can be seen."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Request

from bridge.access.addresses import address, client_address, is_in_networks, networks

#: Headers that proxies add. A proxy that reports no client address hides the visitor, so its requests are
#: refused.
FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-Ip")


class Visitors:
    def __init__(self, allowed_from: Sequence[str], trusted_proxies: Sequence[str]) -> None:
        self._allowed = networks(allowed_from)
        self._trusted = networks(trusted_proxies)

    def allowed(self, request: Request) -> bool:
        peer = request.remote_addr or ""  # a Unix socket has no address
        forwarded = request.headers.get("X-Forwarded-For", "")
        if not any(name in request.headers for name in FORWARDED):
            return is_in_networks(address(peer), self._allowed)
        if not forwarded or not is_in_networks(address(peer), self._trusted):
            return False
        client = client_address(peer, forwarded, self._trusted)
        # A proxy that passes on what clients claim may report its own address.
        return is_in_networks(client, self._allowed) and not is_in_networks(client, self._trusted)

    def client(self, request: Request) -> str:
        """The address of the client, as far as trusted proxies report it."""
        forwarded = request.headers.get("X-Forwarded-For", "")
        return str(client_address(request.remote_addr or "", forwarded, self._trusted) or "unknown")
