"""The settings: one frozen value, read once and passed on.

Four layers, each over the one before: `config/default.toml`, `config/local.toml`, `BRIDGE_SECTION__KEY`
variables, and the plain names such as `GEMINI_API_KEY`. Whatever is unknown or wrong stops the start.
`sections.py` has the settings themselves.

This module knows no HTTP framework and no upstream: which transports there are is not checked here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bridge.settings.database_url import secrets_in
from bridge.settings.google import CodeAssistSettings, VertexSettings
from bridge.settings.guards import GuardSettings, load_guards
from bridge.settings.limits import Limits, LimitSettings
from bridge.settings.models import ModelTable, load_models
from bridge.settings.prices import FREE, PriceTable, load_prices
from bridge.settings.sections import (
    AccessSettings,
    AccountsSettings,
    ConnectSettings,
    LogSettings,
    MetricsSettings,
    ModelSettings,
    OtelSettings,
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
    "CodeAssistSettings",
    "ConnectSettings",
    "LimitSettings",
    "Limits",
    "LogSettings",
    "MetricsSettings",
    "OtelSettings",
    "ResponsesSettings",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "ShownSetting",
    "StateSettings",
    "UpstreamSettings",
    "VertexSettings",
    "check_file",
    "config_folder",
    "load",
]

GEMINI = "gemini"
DEMO = "demo"
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
    "otel": OtelSettings,
    "responses": ResponsesSettings,
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
    """A setting as it may be shown to anybody: a secret is masked."""

    key: str
    value: str | int | float | bool | list[str]
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    models: ModelTable
    guards: GuardSettings = field(default_factory=GuardSettings)
    prices: PriceTable = field(default_factory=PriceTable)
    server: ServerSettings = field(default_factory=ServerSettings)
    upstream: UpstreamSettings = field(default_factory=UpstreamSettings)
    vertex: VertexSettings = field(default_factory=VertexSettings)
    code_assist: CodeAssistSettings = field(default_factory=CodeAssistSettings)
    log: LogSettings = field(default_factory=LogSettings)
    accounts: AccountsSettings = field(default_factory=AccountsSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    otel: OtelSettings = field(default_factory=OtelSettings)
    responses: ResponsesSettings = field(default_factory=ResponsesSettings)
    state: StateSettings = field(default_factory=StateSettings)
    connect: ConnectSettings = field(default_factory=ConnectSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    #: Dotted key → the file or variable that the value came from.
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def transport_in_force(self) -> str:
        if self.upstream.transport != AUTO:
            return self.upstream.transport
        return GEMINI if self.upstream.api_keys else DEMO

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no log may show."""
        keys = (*self.upstream.api_keys, self.code_assist.client_secret)
        return tuple(filter(None, (*keys, *secrets_in(self.state.url))))

    @property
    def model_for_clients(self) -> str:
        """The model that the settings shown to developers name."""
        return self.models.default if self.connect.model == AUTO else self.connect.model

    @property
    def prices_in_force(self) -> PriceTable:
        """The offline model costs nothing, whatever name it is asked for by."""
        return FREE if self.transport_in_force == DEMO else self.prices

    @property
    def unpriced_models(self) -> list[str]:
        """Of the models that the tables name, those whose price is not known."""
        return [model for model in self.models.named if not self.prices_in_force.knows(model)]

    @property
    def fate_of_unpriced(self) -> str:
        """What becomes of requests to models without a price, in words for the operator."""
        if self.limits.unpriced == "refuse":
            return "their cost is not counted, and they are refused where a limit on cost applies"
        return "their cost is not counted, and they pass every limit on cost"

    def preferences(self, protocol: str) -> Mapping[str, Any]:
        """What the operator prefers of one protocol, in the protocol's own terms."""
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
    models, origins["models.default"] = _models(folder, environ, built.pop("models"))
    return _resolved(
        Settings(
            models=models,
            guards=load_guards(_own_or_delivered(folder, "guards.toml")),
            prices=load_prices(_own_or_delivered(folder, "prices.toml")),
            origins=MappingProxyType(origins),
            **built,
        ),
        base_folder(folder, environ),
    )


def _own_or_delivered(folder: Path, name: str) -> Path:
    """A folder of one's own may leave the guards and the prices as they were delivered."""
    own = folder / name
    return own if own.exists() else PROJECT / "config" / name


def check_file(path: Path) -> None:
    """Raise what is wrong with a file of settings, whatever the others say."""
    for entry in _without_secrets(file_entries(path, KNOWN)):
        _value(entry)


def _value(entry: Entry) -> Any:
    return KNOWN[entry.key].read(f"{entry.origin}: {entry.key}", entry.value)


def config_folder(config_dir: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    environ = os.environ if environ is None else environ
    if config_dir is not None:
        return config_dir.absolute()
    named = environ.get(CONFIG_DIR)
    if named and not Path(named).is_dir():
        raise SettingsError(f"environment {CONFIG_DIR}: there is no folder {named}")
    return Path(named or PROJECT / "config").absolute()


def _entries(folder: Path, environ: Mapping[str, str]) -> Iterator[Entry]:
    """What was written, the weakest first."""
    yield from _without_secrets(file_entries(folder / "default.toml", KNOWN))
    if (folder / "local.toml").exists():
        yield from _without_secrets(file_entries(folder / "local.toml", KNOWN))
    yield from credential_entries(environ)
    yield from variable_entries(environ, KNOWN)
    yield from plain_entries(environ)


def _without_secrets(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Files are copied, committed and shown to others; a key must not travel with them."""
    for entry in entries:
        if KNOWN[entry.key].secret:
            raise SettingsError(
                f"{entry.origin}: {entry.key} is a secret and is not read from a file; set {_seat(entry.key)}"
            )
        yield entry


def _seat(key: str) -> str:
    """Where a secret belongs."""
    if key == "upstream.api_keys":
        return f"GEMINI_API_KEY in the environment, or give systemd a credential named {CREDENTIAL}"
    if key == "state.url":
        return f"{STATE_URL} in the environment, or give systemd a credential named {STATE_CREDENTIAL}"
    return f"{variable_name(key)} in the environment"


def _models(folder: Path, environ: Mapping[str, str], wanted: ModelSettings) -> tuple[ModelTable, str]:
    path = folder / "models.toml"
    override = environ.get("DEFAULT_MODEL", "").strip()
    origin = "environment DEFAULT_MODEL" if override else label(path)
    delivered = PROJECT / "config" / "models.toml"
    return load_models(path, override, wanted.retired, delivered), origin


def _resolved(settings: Settings, base: Path) -> Settings:
    """A relative path means the same wherever the bridge is started from."""
    if settings.otel.wanted and not has_package(OTEL_PACKAGE):
        origin = settings.origins["otel.endpoint"]
        raise SettingsError(
            f"{origin}: otel.endpoint is set, but OpenTelemetry is not installed: "
            "pip install 'gemini-bridge[otel]'"
        )
    upstream = replace(settings.upstream, base_url=settings.upstream.base_url.rstrip("/"))
    return replace(settings, upstream=upstream, state=replace(settings.state, dir=base / settings.state.dir))
