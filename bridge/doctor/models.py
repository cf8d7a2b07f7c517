"""The models that the tables name: whether the upstream has them, and which of them retire."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.doctor.upstream import OFFLINE, with_short_timeouts
from bridge.errors import BridgeError
from bridge.exchange.model_directory import GONE, fact_name
from bridge.settings import Settings
from bridge.settings.lifecycle import Retirement
from bridge.settings.models import today
from bridge.state.errors import StorageError
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores
from bridge.state.usage_store import UsageQuery
from bridge.upstream.base import Upstream

#: A model that retires within so many days is told in yellow.
SOON = timedelta(days=90)
#: How many days of accounts are searched for names that clients still ask for.
USED_WITHIN = timedelta(days=30)


# --- whether they exist ------------------------------------------------------------------------------


def check_models(installation: Installation) -> Finding:
    settings = installation.settings
    upstream = with_short_timeouts(settings, settings.upstream.api_keys)
    if not upstream.home:
        return OFFLINE
    try:
        names = {str(model.get("name", "")).removeprefix("models/") for model in upstream.models()}
    except BridgeError as error:
        return yellow(f"not compared: {error.message}", "see the upstream key")
    gone = _gone(settings, upstream, names)
    if gone:
        return red(
            f"models.toml maps to what the upstream does not have: {', '.join(gone)}",
            f"name others there first; it has {', '.join(sorted(names)[:8]) or 'none'}, …",
        )
    return green(f"{len(names)} upstream, among them {', '.join(settings.models.targets)}")


def _gone(settings: Settings, upstream: Upstream, names: set[str]) -> list[str]:
    """The first choices that do not exist, each with the model of its row that serves instead."""
    return [
        row[0] + _served_instead(settings, upstream, names, row[1:])
        for row in _living_rows(settings)
        if not _exists(settings, upstream, names, row[0])
    ]


def _served_instead(settings: Settings, upstream: Upstream, names: set[str], row: tuple[str, ...]) -> str:
    serving = next((model for model in row if _exists(settings, upstream, names, model)), None)
    return f" ({serving} serves instead)" if serving else ""


def _living_rows(settings: Settings) -> Iterator[tuple[str, ...]]:
    """The rows of models that clients' names stand for, without the retired."""
    lifecycle = settings.models.lifecycle
    for row in settings.models.target_rows:
        living = tuple(dict.fromkeys(each for model in row for each in lifecycle.living(model, today())))
        if living:
            yield living


def _exists(settings: Settings, upstream: Upstream, names: set[str], model: str) -> bool:
    """Google lists models that it no longer serves, and may serve some that it does not list."""
    if open_stores(settings, PATIENT).learnt_facts.knows(fact_name(GONE, upstream.home, model)):
        return False
    if model in names:
        return True
    try:
        upstream.check_credentials(model)
    except BridgeError:
        return False
    return True


# --- which of them retire ----------------------------------------------------------------------------


def check_lifecycle(installation: Installation) -> Finding:
    settings = installation.settings
    concerned = dict.fromkeys((*_named(settings), *_asked_for(settings)))
    retired = [told for model in concerned if (told := _if_retired(settings, model))]
    coming = [row for row in settings.models.lifecycle.rows if row.since > today()]
    announced = [_announced(row) for row in coming]
    if retired:
        remedy = "have them ask for the model that serves, or name it in config/models.toml"
        return yellow("; ".join([*retired, *announced]), remedy)
    if any(row.since <= today() + SOON for row in coming):
        remedy = "use the replacement from now on; until you do, the bridge changes over on that day"
        return yellow("; ".join(announced), remedy)
    return green("; ".join(announced) or "no retirement is announced")


def _named(settings: Settings) -> Iterator[str]:
    for row in settings.models.target_rows:
        yield from row
        for model in row:
            yield from settings.models.capabilities(model).fallbacks


def _asked_for(settings: Settings) -> list[str]:
    """The names that clients used lately, as far as that is known."""
    query = UsageQuery(("client-model",), today() - USED_WITHIN, today())
    try:
        groups = open_stores(settings, PATIENT).usage.sums(query)
    except StorageError:  # the state files have a check of their own
        return []
    return [group.names[0].removeprefix("models/") for group in groups]


def _if_retired(settings: Settings, model: str) -> str:
    row = settings.models.lifecycle.retired(model, today())
    if row is None:
        return ""
    serves = ", ".join(dict.fromkeys(settings.models.lifecycle.living(model, today()))) or "nothing"
    return f"{model} is asked for and was retired on {row.since} ({serves} serves instead)"


def _announced(row: Retirement) -> str:
    after = f", then {row.replacement[0]}" if row.replacement else ""
    return f"{', '.join(row.match)} retires on {row.since}{after}"
