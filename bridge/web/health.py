"""Health checks: whether the process is alive, and whether it accepts requests."""

from __future__ import annotations

from flask import Blueprint, Response

from bridge.exchange.drain import Drain
from bridge.web.routes import json_response

HEALTH = "health"  #: the blueprint; it needs no key


def make_health_blueprint(drain: Drain, upstream: str) -> Blueprint:
    blueprint = Blueprint(HEALTH, __name__)

    @blueprint.get("/healthz")
    def healthz() -> Response:
        return json_response({"status": "ok"})

    @blueprint.get("/readyz")
    def readyz() -> Response:
        if drain.begun:
            return json_response({"status": "draining", "upstream": upstream}, 503)
        return json_response({"status": "ready", "upstream": upstream})

    return blueprint
