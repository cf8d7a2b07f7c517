"""For operators: is the process alive, can it serve, what is it."""

from __future__ import annotations

from flask import Blueprint, Response

from bridge import __version__
from bridge.http.routes import json_response

HEALTH = "health"  #: the blueprint that nobody needs a key for


def make_health_blueprint(upstream: str, endpoints: list[str]) -> Blueprint:
    blueprint = Blueprint(HEALTH, __name__)

    @blueprint.get("/healthz")
    def healthz() -> Response:
        return json_response({"status": "ok"})

    @blueprint.get("/readyz")
    def readyz() -> Response:
        return json_response({"status": "ready", "upstream": upstream})

    @blueprint.get("/")
    def about() -> Response:
        return json_response(
            {"name": "gemini-bridge", "version": __version__, "upstream": upstream, "endpoints": endpoints}
        )

    return blueprint
