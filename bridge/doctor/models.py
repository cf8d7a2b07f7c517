"""Checks the models of models.toml: whether the upstream has them, and which of them are retired."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.doctor.upstream import NOT_CONFIGURED, OFFLINE, with_short_timeouts
from bridge.errors import BridgeError
from bridge.exchange.model_directory import GONE, fact_name
from bridge.settings import NONE, Settings
from bridge.settings.lifecycle import Retirement
from bridge.settings.models import today
from bridge.settings.routes import Target
from bridge.settings.upstreams import DEFAULT
from bridge.state.errors import StorageError
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores
from bridge.state.usage_store import UsageQuery
from bridge.upstream.base import Upstream

#: A retirement within this time gives a yellow finding.
SOON = timedelta(days=90)
#: The usage of this time shows the models that clients still request.
USED_WITHIN = timedelta(days=30)
MOST_SHOWN = 8


# --- whether they exist ------------------------------------------------------------------------------


def check_models(installation: Installation) -> Finding:
    settings = installation.settings
    if settings.transport_in_force == NONE:
        return NOT_CONFIGURED
    upstream = with_short_timeouts(settings, settings.upstream.api_keys)
    if not upstream.home:
        return OFFLINE
    try:
        names = {str(model.get("name", "")).removeprefix("models/") for model in upstream.models()}
    except BridgeError as error:
        return yellow(f"not checked: {error.message}", "see the check “upstream key”")
    gone = _gone(settings, upstream, names)
    if gone:
        return red(
            f"{_files(settings)} names models that the upstream does not have: {', '.join(gone)}",
            f"put other models first there; the upstream has {_some(sorted(names))}",
        )
    return green(f"the upstream has {len(names)} models, including {', '.join(settings.models.targets)}")


def _files(settings: Settings) -> str:
    return "models.toml or experiments.toml" if settings.experiments else "models.toml"


def _some(names: list[str]) -> str:
    more = ", …" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + more or "no models"


def _gone(settings: Settings, upstream: Upstream, names: set[str]) -> list[str]:
    """The first models of the rows that do not exist, each with the model that is used instead."""
    return [
        row[0] + _served_instead(settings, upstream, names, row[1:])
        for row in _usable_rows(settings)
        if not _exists(settings, upstream, names, row[0])
    ]


def _served_instead(settings: Settings, upstream: Upstream, names: set[str], row: tuple[str, ...]) -> str:
    serving = next((model for model in row if _exists(settings, upstream, names, model)), None)
    return f" ({serving} is used instead)" if serving else ""


def _usable_rows(settings: Settings) -> Iterator[tuple[str, ...]]:
    """The lists of models in models.toml and experiments.toml at the upstream `default`, with retired models
    replaced."""
    table = settings.models
    for row in settings.target_rows:
        models = [target.model for target in row if DEFAULT in _upstreams(settings, target)]
        usable = tuple(
            dict.fromkeys(each for model in models for each in table.lifecycle.usable_models(model, today()))
        )
        if usable:
            yield usable


def _upstreams(settings: Settings, target: Target) -> tuple[str, ...]:
    return (target.upstream,) if target.upstream else settings.models.upstreams_of(target.model)


def _exists(settings: Settings, upstream: Upstream, names: set[str], model: str) -> bool:
    """Google's list is not reliable: it names models that it no longer serves, and may omit models."""
    if open_stores(settings, PATIENT).learnt_facts.knows(fact_name(GONE, upstream.home, model)):
        return False
    if model in names:
        return True
    try:
        upstream.check_credentials(model)
    except BridgeError:
        return False
    return True


# --- retired models ----------------------------------------------------------------------------------


def check_lifecycle(installation: Installation) -> Finding:
    settings = installation.settings
    models = dict.fromkeys((*_configured(settings), *_requested(settings)))
    retired = [text for model in models if (text := _retirement(settings, model))]
    coming = [row for row in settings.models.lifecycle.rows if row.since > today()]
    announced = [_announced(row) for row in coming]
    if retired:
        remedy = "change the clients, or config/models.toml, to the model that is used instead"
        return yellow("; ".join([*retired, *announced]), remedy)
    if any(row.since <= today() + SOON for row in coming):
        remedy = "use the replacement now; otherwise the bridge uses it from that day on"
        return yellow("; ".join(announced), remedy)
    return green("; ".join(announced) or "no retirement is announced")


def _configured(settings: Settings) -> Iterator[str]:
    for row in settings.target_rows:
        yield from (target.model for target in row)
        for target in row:
            yield from (fallback.model for fallback in settings.models.fallbacks(target.model))


def _requested(settings: Settings) -> list[str]:
    """The model names that clients used recently; none if the usage cannot be read."""
    query = UsageQuery(("client-model",), today() - USED_WITHIN, today())
    try:
        groups = open_stores(settings, PATIENT).usage.sums(query)
    except StorageError:  # the state files have a check of their own
        return []
    return [group.names[0].removeprefix("models/") for group in groups]


def _retirement(settings: Settings, model: str) -> str:
    row = settings.models.lifecycle.retired(model, today())
    if row is None:
        return ""
    replacement = ", ".join(dict.fromkeys(settings.models.lifecycle.usable_models(model, today())))
    return f"{model} is in use but was retired on {row.since} (replacement: {replacement or 'none'})"


def _announced(row: Retirement) -> str:
    after = f"; replacement: {row.replacement[0]}" if row.replacement else ""
    return f"{', '.join(row.match)} will be retired on {row.since}{after}"
