"""The application: settings in, a Flask app out. Made once in each worker, after the fork."""

from __future__ import annotations

from flask import Flask, Response, g, request

from bridge.exchange import Services
from bridge.guards.watch import ActiveGuards
from bridge.http.errors import install_error_handlers
from bridge.http.health import make_health_blueprint
from bridge.http.models import make_models_blueprint
from bridge.http.request_id import HEADER, request_id
from bridge.http.routes import make_blueprint
from bridge.http.short_calls import add_short_calls, shown_path
from bridge.http.stored import make_stored_blueprint
from bridge.observe.record import Observer, Record
from bridge.protocols import PROTOCOLS
from bridge.settings import Settings, load
from bridge.stamp import Stamp
from bridge.state.answers import AnswerStore
from bridge.state.vault import SqliteVault
from bridge.upstream import make_upstream
from bridge.upstream.base import Upstream

#: Asked every few seconds by probes; a line each would drown the others.
UNLOGGED = frozenset({"/healthz", "/readyz"})


def create_app(settings: Settings | None = None, upstream: Upstream | None = None) -> Flask:
    settings = settings or load()
    app = Flask("bridge", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.server.max_body_mb * 1024 * 1024
    services = Services(
        upstream=upstream or make_upstream(settings),
        models=settings.models,
        vault=SqliteVault(settings.state.dir / "signatures.sqlite3"),
        stamp=Stamp(),
        guards=ActiveGuards(settings.guards),
    )
    _keep_records(app, observers=())
    install_error_handlers(app, PROTOCOLS, settings.server.max_body_mb)
    answers = AnswerStore(
        settings.state.dir / "answers.sqlite3", settings.responses.store_days, settings.responses.store_mb
    )
    for protocol in PROTOCOLS:
        preferences = settings.preferences(protocol.name)
        blueprint = make_blueprint(protocol, services, answers, preferences, debug=settings.log.debug)
        add_short_calls(blueprint, protocol, services, preferences)
        app.register_blueprint(blueprint)
        if protocol.storing is not None:
            app.register_blueprint(make_stored_blueprint(protocol, protocol.storing, answers))
    app.register_blueprint(make_models_blueprint(PROTOCOLS, services, settings.upstream.models_ttl))
    endpoints = [f"POST {shown_path(path)}" for protocol in PROTOCOLS for path in protocol.served]
    app.register_blueprint(
        make_health_blueprint(
            settings.transport_in_force,
            [*endpoints, "GET /v1/models", "GET /v1/models/{id}", "GET /healthz", "GET /readyz"],
        )
    )
    return app


def _keep_records(app: Flask, observers: tuple[Observer, ...]) -> None:
    @app.before_request
    def begin() -> None:
        named = request_id(request.headers.get(HEADER))
        g.record = Record(named, request.method, request.path, observers)

    @app.after_request
    def end(response: Response) -> Response:
        record: Record = g.record
        record.status = response.status_code
        response.headers[HEADER] = record.request_id
        if not response.is_streamed and request.path not in UNLOGGED:
            record.first_byte()
            record.tell()
        return response
