"""GET /metrics, for those who may see it. For everybody else there is no such page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from flask import Blueprint, Response, abort, request

from bridge.observe.metrics import CONTENT_TYPE, exposition

PATH = "/metrics"

#: What a proxy adds. Behind one every caller seems to be the proxy, so nobody is let in that way.
FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-Ip")


def make_metrics_blueprint(allowed_from: Iterable[str], accounts_bytes: Callable[[], int]) -> Blueprint:
    blueprint = Blueprint("metrics", __name__)
    networks = tuple(map(ip_network, allowed_from))

    def may_see() -> bool:
        if any(name in request.headers for name in FORWARDED):
            return False
        address = _address(request.remote_addr)
        return address is not None and any(address in network for network in networks)

    @blueprint.get(PATH)
    def metrics() -> Response:
        if not may_see():
            abort(404)
        return Response(exposition(accounts_bytes()), content_type=CONTENT_TYPE)

    return blueprint


def _address(text: str | None) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text or "")
    except ValueError:  # a local socket has none
        return None
    mapped = getattr(address, "ipv4_mapped", None)  # an IPv4 caller of an IPv6 socket
    return mapped or address
