"""For operators: is the process alive, can it serve, what is it."""

from __future__ import annotations

from flask import Blueprint, Response

from bridge import __version__
from bridge.drain import Drain
from bridge.http.routes import json_response


def make_health_blueprint(drain: Drain, upstream: str, endpoints: list[str]) -> Blueprint:
    blueprint = Blueprint("health", __name__)

    @blueprint.get("/healthz")
    def healthz() -> Response:
        return json_response({"status": "ok"})

    @blueprint.get("/readyz")
    def readyz() -> Response:
        if drain.begun:
            return json_response({"status": "draining", "upstream": upstream}, 503)
        return json_response({"status": "ready", "upstream": upstream})

    @blueprint.get("/")
    def about() -> Response:
        return json_response(
            {"name": "gemini-bridge", "version": __version__, "upstream": upstream, "endpoints": endpoints}
        )

    return blueprint
