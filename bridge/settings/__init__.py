"""The settings: one frozen value that is read once and passed on.

There are four layers, and each overrides the one before: `config/default.toml`, `config/local.toml`,
`BRIDGE_SECTION__KEY` variables, and well-known names such as `GEMINI_API_KEY`. An unknown or invalid setting
stops the start. `sections.py` defines the settings.

This module knows no HTTP framework and no upstream, so it does not check the name of the transport.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bridge.settings.context import ContextSettings
from bridge.settings.database_url import secrets_in
from bridge.settings.editors import FILE as EDITORS_FILE
from bridge.settings.editors import EditorBlock, load_editors
from bridge.settings.google import CodeAssistSettings, VertexSettings
from bridge.settings.guards import GuardSettings, load_guards
from bridge.settings.limits import Limits, LimitSettings
from bridge.settings.models import ModelTable
from bridge.settings.models_file import load_models
from bridge.settings.optional_files import agents_in, experiments_in
from bridge.settings.prices import FREE, PriceTable, load_prices
from bridge.settings.routes import Routes, Target
from bridge.settings.sections import (
    AccessSettings,
    AccountsSettings,
    AgentRunSettings,
    CacheSettings,
    ConnectSettings,
    LogSettings,
    McpSettings,
    MediaSettings,
    MetricsSettings,
    ModelSettings,
    OtelSettings,
    PagesSettings,
    RecorderSettings,
    ResponsesSettings,
    ServerSettings,
    StateSettings,
    UpstreamSettings,
)
from bridge.settings.source import (
    CONFIG_DIR,
    CREDENTIAL,
    PROJECT,
    STATE_CREDENTIAL,
    STATE_URL,
    Entry,
    base_folder,
    credential_entries,
    file_entries,
    has_package,
    label,
    plain_entries,
    variable_entries,
    variable_name,
)
from bridge.settings.upstreams import FILE as UPSTREAMS_FILE
from bridge.settings.upstreams import UpstreamRow, default_row, load_upstreams
from bridge.settings.value import (
    AUTO,
    SettingsError,
    Shape,
    shapes,
)

if TYPE_CHECKING:
    from bridge.settings.agents import AgentSettings
    from bridge.settings.experiments import Experiment

__all__ = [
    "AUTO",
    "AccessSettings",
    "AccountsSettings",
    "CacheSettings",
    "CodeAssistSettings",
    "ConnectSettings",
    "ContextSettings",
    "LimitSettings",
    "Limits",
    "LogSettings",
    "McpSettings",
    "MediaSettings",
    "MetricsSettings",
    "OtelSettings",
    "PagesSettings",
    "RecorderSettings",
    "ResponsesSettings",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "ShownSetting",
    "StateSettings",
    "UpstreamRow",
    "UpstreamSettings",
    "VertexSettings",
    "check_file",
    "config_folder",
    "load",
]

GEMINI = "gemini"
DEMO = "demo"
NONE = "none"  #: the section [upstream] names no upstream
BUILT_IN = "built in"
EXPERIMENTS_FILE = "experiments.toml"
OTEL_PACKAGE = "opentelemetry.exporter.otlp.proto.http"

SECTIONS: Mapping[str, type] = {
    "server": ServerSettings,
    "upstream": UpstreamSettings,
    "vertex": VertexSettings,
    "code_assist": CodeAssistSettings,
    "log": LogSettings,
    "accounts": AccountsSettings,
    "metrics": MetricsSettings,
    "pages": PagesSettings,
    "otel": OtelSettings,
    "recorder": RecorderSettings,
    "responses": ResponsesSettings,
    "media": MediaSettings,
    "mcp": McpSettings,
    "cache": CacheSettings,
    "context": ContextSettings,
    "models": ModelSettings,
    "state": StateSettings,
    "connect": ConnectSettings,
    "agent_runs": AgentRunSettings,
    "access": AccessSettings,
    "limits": LimitSettings,
}

KNOWN: Mapping[str, Shape] = {
    f"{section}.{key}": shape for section, owner in SECTIONS.items() for key, shape in shapes(owner).items()
}


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """A setting for display, with secrets masked."""

    key: str
    value: str | int | float | bool | list[str]
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    models: ModelTable
    guards: GuardSettings = field(default_factory=GuardSettings)
    agents: AgentSettings | None = None
    editors: tuple[EditorBlock, ...] = ()  #: the rows of editors.toml
    prices: PriceTable = field(default_factory=PriceTable)
    experiments: tuple[Experiment, ...] = ()  #: the rows of experiments.toml
    server: ServerSettings = field(default_factory=ServerSettings)
    upstream: UpstreamSettings = field(default_factory=UpstreamSettings)
    upstreams: tuple[UpstreamRow, ...] = ()  #: the rows of upstreams.toml
    vertex: VertexSettings = field(default_factory=VertexSettings)
    code_assist: CodeAssistSettings = field(default_factory=CodeAssistSettings)
    log: LogSettings = field(default_factory=LogSettings)
    accounts: AccountsSettings = field(default_factory=AccountsSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    pages: PagesSettings = field(default_factory=PagesSettings)
    otel: OtelSettings = field(default_factory=OtelSettings)
    recorder: RecorderSettings = field(default_factory=RecorderSettings)
    responses: ResponsesSettings = field(default_factory=ResponsesSettings)
    media: MediaSettings = field(default_factory=MediaSettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    state: StateSettings = field(default_factory=StateSettings)
    connect: ConnectSettings = field(default_factory=ConnectSettings)
    agent_runs: AgentRunSettings = field(default_factory=AgentRunSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    #: Dotted key → the file or variable that set the value.
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def transport_in_force(self) -> str:
        if _is_demo(self.upstream, self.models.routes):
            return DEMO
        if self.upstream.transport != AUTO:
            return self.upstream.transport
        return GEMINI if self.upstream.api_keys else NONE

    @property
    def all_upstreams(self) -> tuple[UpstreamRow, ...]:
        """The upstream of the section [upstream], if there is one, and those of upstreams.toml."""
        kind = self.transport_in_force
        if kind == NONE:
            return self.upstreams
        return (default_row(kind, self.upstream, self.vertex, self.code_assist), *self.upstreams)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in the log."""
        named = (key for row in self.upstreams for key in row.api_keys)
        keys = (*self.upstream.api_keys, *named, self.code_assist.client_secret)
        of_agents = self.agents.secrets if self.agents is not None else ()
        return tuple(filter(None, (*keys, *of_agents, *secrets_in(self.state.url))))

    @property
    def model_for_clients(self) -> str:
        """The model in the client settings that developers are shown."""
        return self.models.default if self.connect.model == AUTO else self.connect.model

    @property
    def prices_in_force(self) -> PriceTable:
        """The price table; the offline demo model is free under every name."""
        return FREE if self.transport_in_force == DEMO and not self.upstreams else self.prices

    @property
    def target_rows(self) -> tuple[tuple[Target, ...], ...]:
        """The lists of models that client names and the arms of experiments mean."""
        arms = [arm.models for row in self.experiments for arm in row.arms if arm.models]
        shadows = [shadow.models for row in self.experiments for shadow in row.shadows]
        return tuple(dict.fromkeys((*self.models.target_rows, *arms, *shadows)))

    @property
    def known_targets(self) -> tuple[Target, ...]:
        """Every model of these lists, with all fallbacks."""
        listed = (target for row in self.target_rows for target in row)
        return tuple(dict.fromkeys((*self.models.known_targets, *listed)))

    @property
    def unpriced_models(self) -> list[str]:
        """The models in models.toml and experiments.toml that have no price."""
        prices = self.prices_in_force
        return [str(target) for target in self.known_targets if not prices.knows(*target.price_names)]

    @property
    def unpriced_effect(self) -> str:
        """What the bridge does with requests to models without a price, as a text for the operator."""
        if self.limits.unpriced == "refuse":
            return "their cost is not counted, and requests to them are rejected if a cost limit applies"
        return "their cost is not counted, and requests to them pass every cost limit"

    def preferences(self, protocol: str) -> Mapping[str, Any]:
        """The operator's settings for one protocol."""
        if protocol != "openai_responses":
            return {}
        marks = {"codex": self.responses.codex_marks, "bridge": self.responses.bridge_marks}
        return {"dialect": self.responses.dialect, "marks": marks}

    def shown(self) -> Iterator[ShownSetting]:
        for key, shape in KNOWN.items():
            section, _, name = key.partition(".")
            value = getattr(getattr(self, section), name)
            yield ShownSetting(key, _showable(shape, value), self.origins.get(key, BUILT_IN))
        yield ShownSetting(
            "models.default", self.models.default, self.origins.get("models.default", BUILT_IN)
        )


def _showable(shape: Shape, value: Any) -> Any:
    if shape.secret:
        return [shape.secret.shown(text) for text in ([value] if isinstance(value, str) else value) if text]
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


# --- loading -----------------------------------------------------------------------------------------


def load(config_dir: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    environ = os.environ if environ is None else environ
    folder = config_folder(config_dir, environ)
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    origins: dict[str, str] = {}
    for entry in _entries(folder, environ):
        section, _, key = entry.key.partition(".")
        sections[section][key] = _value(entry)
        origins[entry.key] = entry.origin
    built: dict[str, Any] = {section: owner(**sections[section]) for section, owner in SECTIONS.items()}
    upstreams = load_upstreams(folder / UPSTREAMS_FILE, environ, built["upstream"])
    routes = Routes(upstreams, default=_has_default(built["upstream"], upstreams))
    models, origins["models.default"] = _models(folder, environ, built.pop("models"), routes)
    base = base_folder(folder, environ)
    agents = agents_in(
        folder / "agents", environ, base, built["mcp"].allowed_hosts, demo=_is_demo(built["upstream"], routes)
    )
    if agents is not None:
        models.serve_agents({agent.model_name: agent.model for agent in agents.agents})
    settings = Settings(
        models=models,
        agents=agents,
        upstreams=upstreams,
        guards=load_guards(_own_or_default(folder, "guards.toml")),
        prices=load_prices(_own_or_default(folder, "prices.toml")),
        editors=load_editors(_own_or_default(folder, EDITORS_FILE)),
        origins=MappingProxyType(origins),
        **built,
    )
    experiments = experiments_in(folder / EXPERIMENTS_FILE, models, settings.prices_in_force)
    settings = replace(settings, experiments=experiments)
    return _resolved(settings, base)


def _is_demo(upstream: UpstreamSettings, routes: Routes) -> bool:
    return upstream.transport == DEMO or (
        upstream.transport == AUTO and not upstream.api_keys and routes.default
    )


def _own_or_default(folder: Path, name: str) -> Path:
    """A custom config folder may omit these files; then the default files apply."""
    own = folder / name
    return own if own.exists() else PROJECT / "config" / name


def check_file(path: Path) -> None:
    """Raise SettingsError if this file has an error; other files are not read."""
    for entry in _reject_secrets(file_entries(path, KNOWN)):
        _value(entry)


def _value(entry: Entry) -> Any:
    return KNOWN[entry.key].read(f"{entry.origin}: {entry.key}", entry.value)


def config_folder(config_dir: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    environ = os.environ if environ is None else environ
    if config_dir is not None:
        return config_dir.absolute()
    named = environ.get(CONFIG_DIR)
    if named and not Path(named).is_dir():
        raise SettingsError(f"environment {CONFIG_DIR}: the folder {named} does not exist")
    return Path(named or PROJECT / "config").absolute()


def _entries(folder: Path, environ: Mapping[str, str]) -> Iterator[Entry]:
    """All settings that are set somewhere, in ascending order of precedence."""
    yield from _reject_secrets(file_entries(folder / "default.toml", KNOWN))
    if (folder / "local.toml").exists():
        yield from _reject_secrets(file_entries(folder / "local.toml", KNOWN))
    yield from credential_entries(environ)
    yield from variable_entries(environ, KNOWN)
    yield from plain_entries(environ)


def _reject_secrets(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Configuration files get copied, committed and shared, so they must not hold secrets."""
    for entry in entries:
        if KNOWN[entry.key].secret:
            place = _secret_place(entry.key)
            raise SettingsError(
                f"{entry.origin}: {entry.key} is a secret and is not read from a file; set {place}"
            )
        yield entry


def _secret_place(key: str) -> str:
    if key == "upstream.api_keys":
        return f"GEMINI_API_KEY in the environment, or give systemd a credential named {CREDENTIAL}"
    if key == "state.url":
        return f"{STATE_URL} in the environment, or give systemd a credential named {STATE_CREDENTIAL}"
    return f"{variable_name(key)} in the environment"


def _has_default(upstream: UpstreamSettings, named: tuple[UpstreamRow, ...]) -> bool:
    return bool(upstream.transport != AUTO or upstream.api_keys or not named)


def _models(
    folder: Path, environ: Mapping[str, str], wanted: ModelSettings, routes: Routes
) -> tuple[ModelTable, str]:
    path = folder / "models.toml"
    override = environ.get("DEFAULT_MODEL", "").strip()
    origin = "environment DEFAULT_MODEL" if override else label(path)
    delivered = PROJECT / "config" / "models.toml"
    return load_models(path, override, wanted.retired, delivered, routes), origin


def _resolved(settings: Settings, base: Path) -> Settings:
    """The settings with absolute paths, so that they do not depend on the working directory."""
    if settings.otel.enabled and not has_package(OTEL_PACKAGE):
        origin = settings.origins["otel.endpoint"]
        raise SettingsError(
            f"{origin}: otel.endpoint is set, but OpenTelemetry is not installed. "
            "Run: pip install 'gemini-bridge[otel]'"
        )
    upstream = replace(settings.upstream, base_url=settings.upstream.base_url.rstrip("/"))
    return replace(settings, upstream=upstream, state=replace(settings.state, dir=base / settings.state.dir))
