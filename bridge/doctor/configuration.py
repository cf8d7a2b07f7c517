"""Checks whether the bridge could start: reads all settings and builds all parts, without network access."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bridge.access.authentication import describe_access
from bridge.doctor.gunicorn_settings import gunicorn_settings
from bridge.guards.guard_runner import ActiveGuards
from bridge.settings import Settings, SettingsError, UpstreamRow, check_file, config_folder, load
from bridge.settings.editors import load_editors
from bridge.settings.experiments import load_experiments
from bridge.settings.guards import load_guards
from bridge.settings.models_file import load_models
from bridge.settings.prices import load_prices
from bridge.settings.sections import UpstreamSettings
from bridge.settings.source import PROJECT, label, read_toml
from bridge.settings.upstreams import DEFAULT, load_upstreams
from bridge.upstream import make_upstream
from bridge.upstream.capabilities import Capability

LOCAL = "local.toml"
AGENTS = "agents"  #: the folder of the files about agents

#: The function that reads each file. Any other file is only parsed as TOML.
READERS: Mapping[str, Callable[[Path], object]] = {
    "default.toml": check_file,
    LOCAL: check_file,
    "models.toml": load_models,
    "guards.toml": load_guards,
    "editors.toml": load_editors,
    "prices.toml": load_prices,
    "experiments.toml": load_experiments,
    "upstreams.toml": partial(load_upstreams, environ=os.environ, inherited=UpstreamSettings()),
}


@dataclass(frozen=True, slots=True)
class Inspected:
    name: str
    summary: str = ""
    error: str = ""


def inspect() -> list[Inspected]:
    """Check each file separately, to report all errors; then the parts that are built from the settings."""
    files = list(_files(config_folder()))
    if any(each.error for each in files):
        return files
    try:
        settings = load()
    except SettingsError as error:
        return [*files, Inspected("settings", error=str(error))]
    parts = [_attempted(name, partial(check, settings)) for name, check in PARTS.items()]
    return [*files, *parts]


def _files(folder: Path) -> Iterator[Inspected]:
    shipped = {path.name for path in (PROJECT / "config").glob("*.toml")} - {LOCAL}
    present = {path.name for path in folder.glob("*.toml")}
    for name in sorted(shipped & present):
        path = folder / name
        yield _attempted(label(path), partial(_read, path))
    if LOCAL in present:
        yield _attempted(label(folder / LOCAL), partial(_read, folder / LOCAL))
    for path in sorted((folder / AGENTS).glob("*.toml")):
        yield _attempted(label(path), partial(_read, path))
    for name in sorted(present - shipped - {LOCAL}):
        yield Inspected(label(folder / name), "ignored: the bridge does not use a file with this name")


def _read(path: Path) -> str:
    READERS.get(path.name, read_toml)(path)
    return ""


def _attempted(name: str, check: Callable[[], str]) -> Inspected:
    try:
        return Inspected(name, check())
    except SettingsError as error:
        return Inspected(name, error=str(error))
    except Exception as error:
        message = str(error).partition("\n")[0]
        return Inspected(name, error=f"{name}: {type(error).__name__}: {message}")


# --- parts that are built from the settings ----------------------------------------------------------


def _state(settings: Settings) -> str:
    folder = settings.state.dir
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        if existing == folder:
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise SettingsError(f"the state folder {folder} is not writable: {error.strerror}") from None
    if not os.access(existing, os.W_OK | os.X_OK):
        raise SettingsError(f"the state folder {folder} cannot be created: {existing} is not writable")
    return str(folder) + ("" if existing == folder else " (will be created)")


def _guards(settings: Settings) -> str:
    ActiveGuards(settings.guards)
    modes = settings.guards.modes
    enforced = sum(getattr(modes, name) == "enforce" for name in modes.__slots__)
    return f"{enforced} of {len(modes.__slots__)} enforced"


def _agents(settings: Settings) -> str:
    if settings.agents is None:
        return "none"
    from bridge.agents.directory import AgentDirectory  # most installations have no agents

    AgentDirectory(settings.agents, settings.guards)
    return ", ".join(settings.agents.names) or "tools, but no agents"


def _upstream(settings: Settings) -> str:
    return "; ".join(_described(settings, row) for row in settings.all_upstreams)


def _described(settings: Settings, row: UpstreamRow) -> str:
    upstream, keys = make_upstream(settings, row=row), len(row.api_keys)
    named = f"{row.name}: " if settings.upstreams else ""
    if not upstream.home:
        return f"{named}{'no key: ' if row.name == DEFAULT else ''}the offline demo model"
    credentials = upstream.CANNOT.get(Capability.KEY_ROTATION, f"{keys} key{'s' if keys > 1 else ''}")
    return f"{named}{upstream.home}, {credentials}"


def _gunicorn(_settings: Settings) -> str:
    server = gunicorn_settings()
    return f"{', '.join(server.bind)}, workers × threads is {server.workers} × {server.threads}"


def _application(settings: Settings) -> str:
    from bridge.web.app import create_app  # Flask is slow to import

    return f"{len(list(create_app(settings).url_map.iter_rules()))} routes"


PARTS: Mapping[str, Callable[[Settings], str]] = {
    "state folder": _state,
    "access": lambda settings: describe_access(settings).text,
    "guards": _guards,
    "agents": _agents,
    "upstream": _upstream,
    "gunicorn.conf.py": _gunicorn,
    "application": _application,
}
