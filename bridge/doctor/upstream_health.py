"""Tests each upstream: whether it lists its models, and which are in cool-down. Used by the doctor and by
`gemini-bridge upstream`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.doctor.upstream import TIMEOUT
from bridge.errors import BridgeError
from bridge.settings import Settings, SettingsError, UpstreamRow
from bridge.settings.routes import Target
from bridge.state.errors import StorageError
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores
from bridge.state.upstream_failures import LastFailure
from bridge.upstream import make_upstream
from bridge.upstream.cooldowns import model_cooldown

UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
TIME_LIMIT = 8.0  #: seconds for all upstreams together


@dataclass(slots=True)
class Health:
    row: UpstreamRow
    address: str = ""
    models: tuple[str, ...] = ()
    error: str = "no answer in time"
    resting: tuple[str, ...] = ()  #: configured models that are in cool-down in the running bridge
    failure: LastFailure | None = None  #: the last one of the running bridge

    @property
    def state(self) -> str:
        if self.error:
            return self.error
        resting = f", in cool-down: {', '.join(self.resting)}" if self.resting else ""
        return f"{len(self.models)} model{'' if len(self.models) == 1 else 's'}{resting}"

    @property
    def last_error(self) -> str:
        """The last failure of the running bridge; empty if there is none."""
        if self.failure is None:
            return ""
        return f"{self.failure.error}, {_duration(self.failure.seconds_ago)} ago"


def _nobody_watches(_tested: int) -> None:
    pass


def examine_upstreams(
    settings: Settings, rows: Iterable[UpstreamRow], progress: Callable[[int], None] = _nobody_watches
) -> list[Health]:
    """The health of each upstream; they are tested at the same time. `progress` gets the number of those that
    are done."""
    found = [_remembered(settings, row) for row in rows]
    threads = [threading.Thread(target=_test, args=(settings, each), daemon=True) for each in found]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + TIME_LIMIT
    for done, thread in enumerate(threads):
        progress(done)
        thread.join(max(0.0, deadline - time.monotonic()))
    return found


def _test(settings: Settings, health: Health) -> None:
    row = replace(health.row, connect_timeout=TIMEOUT, read_timeout=TIMEOUT)
    try:
        upstream = make_upstream(settings, row=row)
        health.address = upstream.home
        names = (str(model.get("name", "")).removeprefix("models/") for model in upstream.models())
        health.models = tuple(names)
    except (BridgeError, SettingsError) as error:
        health.error = str(error)
        return
    health.error = ""


def _remembered(settings: Settings, row: UpstreamRow) -> Health:
    """What the running bridge knows of the upstream."""
    try:
        stores = open_stores(settings, PATIENT)
        left, models = stores.cooldowns.left, _configured(settings, row)
        resting = tuple(model for model in models if left(model_cooldown(Target(row.name, model))))
        return Health(row, resting=resting, failure=stores.upstream_failures.last(row.name))
    except StorageError:  # the state files have a check of their own
        return Health(row)


def _configured(settings: Settings, row: UpstreamRow) -> tuple[str, ...]:
    """The models that models.toml, experiments.toml and the row itself name for this upstream."""
    table = settings.models
    served = [
        target.model
        for target in settings.known_targets
        if row.name in ((target.upstream,) if target.upstream else table.upstreams_of(target.model))
    ]
    plain = [pattern for pattern in row.models if "*" not in pattern]
    return tuple(dict.fromkeys((*served, *plain)))


def check_upstreams(installation: Installation) -> Finding:
    settings = installation.settings
    if not settings.upstreams:
        return green("not needed: upstreams.toml names no upstream")
    found = examine_upstreams(settings, settings.upstreams)
    states = "; ".join(map(_described, found))
    if any(each.error for each in found):
        return red(states, "fix it, and test it alone: gemini-bridge upstream test NAME")
    if unknown := list(_models_not_listed(settings, found)):
        return yellow(
            f"{states}; not listed: {', '.join(unknown)}",
            "correct the names in models.toml and upstreams.toml, or check the list of the upstream",
        )
    return green(states)


def _described(health: Health) -> str:
    last = f" (last error: {health.last_error})" if health.last_error else ""
    return f"{health.row.name}: {health.state}{last}"


def _duration(seconds: float) -> str:
    unit, length = next(each for each in UNITS if seconds >= each[1] or each[1] == 1)
    number = int(seconds // length)
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _models_not_listed(settings: Settings, found: list[Health]) -> Iterator[str]:
    """The models that the tables name and that their upstream does not list."""
    for each in found:
        for model in _configured(settings, each.row):
            if model not in each.models:
                yield f"{each.row.name}:{model}"
