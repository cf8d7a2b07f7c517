"""Builds the Flask application from the settings, once in each worker, after the fork."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from flask import Flask, Response

from bridge.access.account import AccountReader
from bridge.access.authentication import Authenticator
from bridge.access.key_cache import KeyCache
from bridge.access.limits import CostOf, Limiter
from bridge.access.running_answers import RunningAnswers
from bridge.access.sign_in import SignIns
from bridge.exchange.agents import AgentModels
from bridge.exchange.context_fitting import ContextFitting
from bridge.exchange.drain import Drain
from bridge.exchange.hosted_servers import HostedAnswers
from bridge.exchange.media_by_url import MediaByUrl
from bridge.exchange.model_directory import ModelDirectory
from bridge.exchange.request_cache import RequestCache
from bridge.exchange.services import Services
from bridge.exchange.stored_answers import NOT_STORED
from bridge.exchange.summaries import Summaries
from bridge.fetch.media_fetcher import MediaFetcher
from bridge.fetch.network import Network
from bridge.gemini.conversation import session_in_headers
from bridge.guards.guard_runner import ActiveGuards
from bridge.ids_and_clock import IdsAndClock
from bridge.observe.costs import cost_of, saved_cost_of
from bridge.observe.metrics import RequestMetrics
from bridge.observe.record import CACHE_HIT, Observer, Record
from bridge.observe.usage_writer import UsageObserver
from bridge.protocols import PROTOCOLS
from bridge.server.app_keys import DRAIN, HEAD_TIMEOUT, SLOTS, SLOW_CLIENTS
from bridge.server.client_socket import ClientSocket, SlowClients
from bridge.server.memory import MemoryBudget
from bridge.server.slots import Slots
from bridge.settings import Settings, load
from bridge.settings.models import LONGEST_NAME
from bridge.settings.prices import FREE
from bridge.settings.value import OFF
from bridge.state.stores import Stores, open_stores
from bridge.upstream import make_directory
from bridge.upstream.base import Upstream
from bridge.upstream.retries import RetryPolicy
from bridge.web.access import install_access
from bridge.web.account_api import make_account_blueprint
from bridge.web.account_page import PAGES, make_account_pages
from bridge.web.conversations import make_conversations_blueprint
from bridge.web.errors import install_error_handlers
from bridge.web.front import FRONT, make_front_blueprint
from bridge.web.health import HEALTH, make_health_blueprint
from bridge.web.metrics import PATH as METRICS
from bridge.web.metrics import make_metrics_blueprint
from bridge.web.models import ModelList, make_models_blueprint
from bridge.web.node_name import install_node_name
from bridge.web.request import Request, current_request
from bridge.web.request_id import HEADER, request_id
from bridge.web.routes import ClientSide, ProtocolServing, make_blueprint
from bridge.web.stored_answers import make_stored_blueprint
from bridge.web.unary_calls import add_unary_calls
from bridge.web.user_agent import client_program

if TYPE_CHECKING:
    from bridge.recorder.recorder import Recorder

#: Monitoring requests these every few seconds; their log lines would hide all others.
UNLOGGED = frozenset({"/healthz", "/readyz", METRICS})

OVERHEAD = "X-Bridge-Overhead-Ms"
UPSTREAM = "X-Bridge-Upstream"  #: the name of the upstream, if there are several
MODEL = "X-Bridge-Model"  #: the upstream's model that the request was sent to
MODEL_VERSION = "X-Bridge-Model-Version"  #: the model that answered, as the upstream names it

STATE_METRICS = "bridge_state_metrics"  #: the key in `app.extensions`, which keeps the object

EXPERIMENT = "X-Bridge-Experiment"  #: the experiment and the arm of the request

CACHE = "X-Bridge-Cache"  #: how the request cache was used
LOSSES = "X-Bridge-Losses"  #: what the bridge dropped from the request
RECORDED = "X-Bridge-Recorded"  #: that the flight recorder keeps the request, and how much of it
CONTEXT = "X-Bridge-Context"  #: how the bridge shortened the conversation
LONGEST_LOSSES = 1024  #: characters


class Application(Flask):
    request_class = Request

    def ensure_sync(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """All views are synchronous, so skip Flask's check in each request."""
        return function


def create_app(
    settings: Settings | None = None, upstream: Upstream | None = None, network: Network | None = None
) -> Flask:
    settings = settings or load()
    app = Application("bridge", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.server.max_body_mb * 1024 * 1024
    stores = open_stores(settings)
    _serve_stores(stores, app)
    services = make_services(settings, stores, upstream, network)
    memory = MemoryBudget(settings.server.memory_mb, settings.server.max_body_mb)
    client_side = ClientSide(
        Slots(settings.server.threads, memory), SlowClients(), settings, _recorder(settings, stores)
    )
    usage = UsageObserver(stores.usage, settings.prices_in_force)
    if settings.experiments:
        from bridge.web.experiments import make_experiments  # most installations have no experiment

        is_busy = client_side.slots.more_than_half_taken
        experiments = make_experiments(settings, stores, services, upstream, usage, is_busy)
        services = replace(services, experiments=experiments)
    app.extensions.update(
        {DRAIN: services.drain, SLOW_CLIENTS: client_side.slow_clients, SLOTS: client_side.slots}
    )
    app.config[HEAD_TIMEOUT] = settings.server.head_timeout
    _keep_records(app, client_side.slow_clients, usage, _observers(settings, services.context))
    authenticator = Authenticator(settings, KeyCache(stores.keys))
    limiter = Limiter(stores.ledger, settings.limits, _cost_by(settings))
    install_access(
        app,
        authenticator,
        limiter,
        RunningAnswers(authenticator, limiter, settings.limits.cut_streams),
        PROTOCOLS,
        open_to_all={HEALTH, FRONT, PAGES, "metrics"},
    )
    install_error_handlers(app, PROTOCOLS, settings.server.max_body_mb)
    for protocol in PROTOCOLS:
        _serve_protocol(app, ProtocolServing(protocol, services, stores, client_side))
    models = ModelList(services.models, services.ids_and_clock, services.experiments)
    app.register_blueprint(make_models_blueprint(PROTOCOLS, models))
    app.register_blueprint(make_health_blueprint(services.drain, settings.transport_in_force))
    node = settings.server.node_name
    install_node_name(app, node)
    app.register_blueprint(make_metrics_blueprint(settings, stores.usage))
    app.register_blueprint(make_front_blueprint(settings, models))
    accounts = AccountReader(limiter, stores.usage)
    app.register_blueprint(make_account_blueprint(accounts, settings.prices_in_force.currency))
    app.register_blueprint(make_account_pages(settings, authenticator, accounts, SignIns(stores.ledger)))
    return app


def _serve_protocol(app: Flask, serving: ProtocolServing) -> None:
    protocol = serving.protocol
    blueprint = make_blueprint(serving)
    add_unary_calls(blueprint, serving)
    app.register_blueprint(blueprint)
    if protocol.storing is not None:
        app.register_blueprint(make_stored_blueprint(serving, protocol.storing))
    if protocol.conversations is not None:
        app.register_blueprint(make_conversations_blueprint(serving, protocol.conversations))


def _serve_stores(stores: Stores, app: Flask) -> None:
    """Start the stores' threads, and those that watch a database server."""
    stores.serve()
    if stores.bridges is not None:
        from bridge.observe.state_metrics import StateMetrics

        app.extensions[STATE_METRICS] = StateMetrics(stores.bridges, stores.usage)


def make_services(
    settings: Settings, stores: Stores, upstream: Upstream | None = None, network: Network | None = None
) -> Services:
    upstreams = make_directory(settings, stores.cooldowns, upstream)
    return Services(
        upstreams=upstreams,
        models=ModelDirectory(settings.models, stores.learnt_facts, upstreams, settings.upstream.models_ttl),
        signatures=stores.signatures,
        ids_and_clock=IdsAndClock(),
        guards=ActiveGuards(settings.guards),
        cooldowns=stores.cooldowns,
        policy=RetryPolicy(settings.upstream.attempts, settings.upstream.longest_wait),
        drain=Drain(),
        heartbeat=settings.server.heartbeat,
        store=settings.upstream.store,
        prices=FREE if settings.limits.unpriced == "allow" else settings.prices_in_force,
        auto_tier=settings.upstream.auto_tier,
        agents=_agents(settings, stores),
        hosted=HostedAnswers(settings),
        context=ContextFitting(settings.context, settings.editors),
        summaries=Summaries(stores.summaries),
        cache=RequestCache(stores.request_cache, settings.cache),
        failures=stores.upstream_failures,
        media=MediaByUrl(MediaFetcher(settings.media, network) if settings.media.fetch else None),
    )


def _recorder(settings: Settings, stores: Stores) -> Recorder | None:
    if settings.recorder.mode == OFF:
        return None
    from bridge.recorder.recorder import Recorder

    return Recorder(settings, stores.flights)


def _agents(settings: Settings, stores: Stores) -> AgentModels:
    """An error in the administrator's agents stops the start."""
    agents = AgentModels(settings, stores.agent_runs)
    if settings.agents is not None and not settings.agents.built_in:
        _ = agents.directory
    return agents


def _header_safe(name: str) -> str:
    """A client can choose the name, so replace characters that are not allowed in a header."""
    return "".join(letter if "!" <= letter <= "~" else "?" for letter in name[:LONGEST_NAME])


def _listed_losses(names: Sequence[str]) -> str:
    """The names with commas between them. `+N` at the end counts names for which there is no space."""
    safe = sorted({_header_safe(name).replace(",", "?") for name in names})
    listed = next(
        text for count in range(len(safe), -1, -1) if len(text := ",".join(safe[:count])) <= LONGEST_LOSSES
    )
    left_out = len(safe) - (listed.count(",") + 1)
    return f"{listed},+{left_out}" if left_out else listed


def _context_header(record: Record) -> str:
    """For each step what it changed, then the tokens that all of them saved."""
    steps = [f"{step.name}={step.changes}" for step in record.context_steps]
    return ";".join((*steps, f"saved={sum(step.saved for step in record.context_steps)}"))


def _cost_by(settings: Settings) -> CostOf:
    prices = settings.prices_in_force

    return lambda record: cost_of(record, prices) or 0.0


def _observers(settings: Settings, context: ContextFitting) -> tuple[Observer, ...]:
    models = {row[0].model for row in settings.target_rows}
    prices = settings.prices_in_force
    observers: list[Observer] = [
        RequestMetrics(models, _cost_by(settings), lambda record: saved_cost_of(record, prices)),
        context.learn,
    ]
    if settings.otel.enabled:
        from bridge.observe.otel import RequestSpans  # an optional dependency; import it only if enabled

        observers.append(RequestSpans(settings.otel.endpoint))
    return tuple(observers)


def _keep_records(
    app: Flask, slow_clients: SlowClients, usage: UsageObserver, observers: tuple[Observer, ...]
) -> None:
    @app.before_request
    def begin() -> None:
        request = current_request()
        headers = request.headers
        slow_clients.arrived(ClientSocket(request.environ).socket)
        session = session_in_headers(cast(Mapping[str, str], headers))
        request.record = Record(
            request_id(headers.get(HEADER)),
            request.method,
            request.path,
            observers,
            (usage,),
            client=client_program(headers.get("User-Agent")),
            traceparent=headers.get("traceparent"),
            session=session and session.id,
            agent=session and session.agent,
        )
        request.resources = ExitStack()
        if request.path not in UNLOGGED:
            request.resources.callback(request.record.tell)

    @app.after_request
    def end(response: Response) -> Response:
        request = current_request()
        record = request.record
        record.status = response.status_code
        response.headers[HEADER] = record.request_id
        if record.overhead is not None:
            response.headers[OVERHEAD] = f"{record.overhead * 1000:.1f}"
        if record.upstream:
            response.headers[UPSTREAM] = record.upstream
        for header, model in ((MODEL, record.upstream_model), (MODEL_VERSION, record.model_version)):
            if model:
                response.headers[header] = _header_safe(model)
        losses = (*record.losses, *(name for name in (NOT_STORED,) if record.notes[name]))
        if losses:
            response.headers[LOSSES] = _listed_losses(losses)
        if record.context_steps:
            response.headers[CONTEXT] = _context_header(record)
        if record.assignment is not None:
            response.headers[EXPERIMENT] = str(record.assignment)
        if record.cache:
            response.headers[CACHE] = record.cache
        if record.cache == CACHE_HIT:
            response.headers["Age"] = f"{record.cache_age:.0f}"
        if request.recorded:
            response.headers[RECORDED] = request.recorded
        if not response.is_streamed:
            record.first_byte()
        return response

    @app.teardown_request
    def release(_error: BaseException | None) -> None:
        current_request().resources.close()
