"""GET /metrics, for the configured addresses. All other clients get a 404."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from flask import Blueprint, Response, abort, request

from bridge.observe.metrics import CONTENT_TYPE, exposition
from bridge.state.usage_store import UsageStore

PATH = "/metrics"

#: Headers that proxies add. Behind a proxy all clients have its address, so such requests get a 404.
FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-Ip")


def make_metrics_blueprint(allowed_from: Iterable[str], usage: UsageStore, node: str) -> Blueprint:
    blueprint = Blueprint("metrics", __name__)
    networks = tuple(map(ip_network, allowed_from))

    def is_allowed() -> bool:
        if any(name in request.headers for name in FORWARDED):
            return False
        address = _address(request.remote_addr)
        return address is not None and any(address in network for network in networks)

    @blueprint.get(PATH)
    def metrics() -> Response:
        if not is_allowed():
            abort(404)
        body = exposition(usage.stored_bytes(), usage.waiting(), node)
        return Response(body, content_type=CONTENT_TYPE)

    return blueprint


def _address(text: str | None) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text or "")
    except ValueError:  # a Unix socket has no address
        return None
    mapped = getattr(address, "ipv4_mapped", None)  # an IPv4 client of an IPv6 socket
    return mapped or address
