"""GET /metrics, for the configured addresses. All other clients get a 404."""

from __future__ import annotations

from flask import Blueprint, Response, abort, request

from bridge.access.addresses import address, client_address, is_in_networks, networks
from bridge.observe.metrics import CONTENT_TYPE, exposition
from bridge.settings import Settings
from bridge.state.usage_store import UsageStore

PATH = "/metrics"

#: Headers that proxies add. A proxy that reports no client address hides who asks, so its requests get a 404.
FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-Ip")


def make_metrics_blueprint(settings: Settings, usage: UsageStore) -> Blueprint:
    blueprint = Blueprint("metrics", __name__)
    allowed = networks(settings.metrics.allowed_from)
    trusted = networks(settings.server.trusted_proxies)

    def is_allowed() -> bool:
        peer = request.remote_addr or ""  # a Unix socket has no address
        forwarded = request.headers.get("X-Forwarded-For", "")
        if not any(name in request.headers for name in FORWARDED):
            return is_in_networks(address(peer), allowed)
        if not forwarded or not is_in_networks(address(peer), trusted):
            return False
        client = client_address(peer, forwarded, trusted)
        # A proxy that passes on what clients claim may report its own address.
        return is_in_networks(client, allowed) and not is_in_networks(client, trusted)

    @blueprint.get(PATH)
    def metrics() -> Response:
        if not is_allowed():
            abort(404)
        body = exposition(usage.stored_bytes(), usage.waiting(), settings.server.node_name)
        return Response(body, content_type=CONTENT_TYPE)

    return blueprint
