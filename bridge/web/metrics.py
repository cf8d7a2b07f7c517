"""GET /metrics, for the configured addresses. All other clients get a 404."""

from __future__ import annotations

from flask import Blueprint, Response, abort, request

from bridge.observe.metrics import CONTENT_TYPE, exposition
from bridge.settings import Settings
from bridge.state.usage_store import UsageStore
from bridge.web.visitors import Visitors

PATH = "/metrics"


def make_metrics_blueprint(settings: Settings, usage: UsageStore) -> Blueprint:
    blueprint = Blueprint("metrics", __name__)
    visitors = Visitors(settings.metrics.allowed_from, settings.server.trusted_proxies)

    @blueprint.get(PATH)
    def metrics() -> Response:
        if not visitors.allowed(request):
            abort(404)
        body = exposition(usage.stored_bytes(), usage.waiting(), settings.server.node_name)
        return Response(body, content_type=CONTENT_TYPE)

    return blueprint
