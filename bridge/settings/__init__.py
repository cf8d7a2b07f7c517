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
from typing import Any

from bridge.settings.context import ContextSettings
from bridge.settings.database_url import secrets_in
from bridge.settings.editors import FILE as EDITORS_FILE
from bridge.settings.editors import EditorBlock, load_editors
from bridge.settings.google import CodeAssistSettings, VertexSettings
from bridge.settings.guards import GuardSettings, load_guards
from bridge.settings.limits import Limits, LimitSettings
from bridge.settings.models import ModelTable
from bridge.settings.models_file import load_models
from bridge.settings.prices import FREE, PriceTable, load_prices
from bridge.settings.routes import Routes
from bridge.settings.sections import (
    AccessSettings,
    AccountsSettings,
    CacheSettings,
    ConnectSettings,
    LogSettings,
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
    "cache": CacheSettings,
    "context": ContextSettings,
    "models": ModelSettings,
    "state": StateSettings,
    "connect": ConnectSettings,
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
    editors: tuple[EditorBlock, ...] = ()  #: the rows of editors.toml
    prices: PriceTable = field(default_factory=PriceTable)
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
    cache: CacheSettings = field(default_factory=CacheSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    state: StateSettings = field(default_factory=StateSettings)
    connect: ConnectSettings = field(default_factory=ConnectSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    #: Dotted key → the file or variable that set the value.
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def transport_in_force(self) -> str:
        if self.upstream.transport != AUTO:
            return self.upstream.transport
        if self.upstream.api_keys:
            return GEMINI
        return DEMO if self.models.routes.default else NONE

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
        return tuple(filter(None, (*keys, *secrets_in(self.state.url))))

    @property
    def model_for_clients(self) -> str:
        """The model in the client settings that developers are shown."""
        return self.models.default if self.connect.model == AUTO else self.connect.model

    @property
    def prices_in_force(self) -> PriceTable:
        """The price table; the offline demo model is free under every name."""
        return FREE if self.transport_in_force == DEMO and not self.upstreams else self.prices

    @property
    def unpriced_models(self) -> list[str]:
        """The models in models.toml that have no price."""
        prices = self.prices_in_force
        return [str(target) for target in self.models.known_targets if not prices.knows(*target.price_names)]

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
    return _resolved(
        Settings(
            models=models,
            upstreams=upstreams,
            guards=load_guards(_own_or_default(folder, "guards.toml")),
            editors=load_editors(_own_or_default(folder, EDITORS_FILE)),
            prices=load_prices(_own_or_default(folder, "prices.toml")),
            origins=MappingProxyType(origins),
            **built,
        ),
        base_folder(folder, environ),
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
