"""The application: settings in, a Flask app out. Made once in each worker, after the fork."""

from __future__ import annotations

from flask import Flask, Response, g, request

from bridge.access.door import Door
from bridge.access.ledger import LIMITS_FILE, SqliteLedger
from bridge.access.limits import Limiter
from bridge.access.ring import KeyRing
from bridge.access.store import KEYS_FILE, KeyStore
from bridge.attempts import Policy
from bridge.drain import Drain
from bridge.exchange import Services
from bridge.guards.watch import ActiveGuards
from bridge.http.access import install_access
from bridge.http.client import Client, SlowClients
from bridge.http.errors import install_error_handlers
from bridge.http.front import FRONT, make_front_blueprint
from bridge.http.health import HEALTH, make_health_blueprint
from bridge.http.models import ModelList, make_models_blueprint
from bridge.http.places import Places
from bridge.http.request_id import HEADER, request_id
from bridge.http.routes import Edge, make_blueprint
from bridge.http.short_calls import add_short_calls, shown_path
from bridge.http.stored import make_stored_blueprint
from bridge.observe.record import Observer, Record
from bridge.protocols import PROTOCOLS
from bridge.settings import Settings, load
from bridge.stamp import Stamp
from bridge.state.answers import AnswerStore
from bridge.state.cooldowns import SharedCooldowns
from bridge.state.vault import SqliteVault
from bridge.upstream import make_upstream
from bridge.upstream.base import Upstream

#: Where gunicorn's worker finds what it must tell, and how long a client may take for the head of a request.
DRAIN = "bridge.drain"
SLOW_CLIENTS = "bridge.slow_clients"
HEAD_TIMEOUT = "BRIDGE_HEAD_TIMEOUT"
#: Asked every few seconds by probes; a line each would drown the others.
UNLOGGED = frozenset({"/healthz", "/readyz"})


def create_app(settings: Settings | None = None, upstream: Upstream | None = None) -> Flask:
    settings = settings or load()
    app = Flask("bridge", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.server.max_body_mb * 1024 * 1024
    services = _services(settings, upstream)
    edge = Edge(Places(settings.server.threads), SlowClients(), settings)
    app.extensions.update({DRAIN: services.drain, SLOW_CLIENTS: edge.slow_clients})
    app.config[HEAD_TIMEOUT] = settings.server.head_timeout
    _keep_records(app, edge.slow_clients, observers=())
    install_access(
        app,
        Door(settings, KeyRing(KeyStore(settings.state.dir / KEYS_FILE))),
        Limiter(SqliteLedger(settings.state.dir / LIMITS_FILE), settings.limits),
        PROTOCOLS,
        open_to_all={HEALTH, FRONT},
    )
    install_error_handlers(app, PROTOCOLS, settings.server.max_body_mb)
    answers = AnswerStore(
        settings.state.dir / "answers.sqlite3", settings.responses.store_days, settings.responses.store_mb
    )
    for protocol in PROTOCOLS:
        blueprint = make_blueprint(protocol, services, answers, edge)
        add_short_calls(blueprint, protocol, services, edge)
        app.register_blueprint(blueprint)
        if protocol.storing is not None:
            app.register_blueprint(make_stored_blueprint(protocol, protocol.storing, answers))
    models = ModelList(services, settings.upstream.models_ttl)
    app.register_blueprint(make_models_blueprint(PROTOCOLS, models))
    app.register_blueprint(make_health_blueprint(services.drain, settings.transport_in_force))
    endpoints = [f"POST {shown_path(path)}" for protocol in PROTOCOLS for path in protocol.served]
    endpoints += ["GET /v1/models", "GET /v1/models/{id}", "GET /healthz", "GET /readyz"]
    app.register_blueprint(make_front_blueprint(settings, models, endpoints))
    return app


def _services(settings: Settings, upstream: Upstream | None) -> Services:
    state = settings.state.dir
    cooldowns = SharedCooldowns(state / "cooldowns.sqlite3")
    return Services(
        upstream=upstream or make_upstream(settings, cooldowns),
        models=settings.models,
        vault=SqliteVault(state / "signatures.sqlite3"),
        stamp=Stamp(),
        guards=ActiveGuards(settings.guards),
        cooldowns=cooldowns,
        policy=Policy(settings.upstream.attempts, settings.upstream.longest_wait),
        drain=Drain(),
        heartbeat=settings.server.heartbeat,
    )


def _keep_records(app: Flask, slow_clients: SlowClients, observers: tuple[Observer, ...]) -> None:
    @app.before_request
    def begin() -> None:
        slow_clients.arrived(Client(request.environ).socket)
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
