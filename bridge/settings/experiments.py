"""The experiments: rows of `config/experiments.toml`, each of which compares models behind client names.

This module is imported only if the file has a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from bridge.gemini.model_capabilities import LEVELS
from bridge.settings.models import ModelTable
from bridge.settings.name_patterns import patterns_meet
from bridge.settings.prices import PriceTable
from bridge.settings.route_checks import check_target
from bridge.settings.routes import Target
from bridge.settings.source import label, read_toml
from bridge.settings.upstreams import Name
from bridge.settings.value import OneOf, Range, SettingsError, Shape, read_table, shape_of

CONVERSATION, KEY = "conversation", "key"
Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    weight: int
    models: tuple[Target, ...] = ()  #: the first that exists is used; empty: the models of the alias
    thinking: str = ""  #: the thinking level of all its requests; empty: what the client asks for


@dataclass(frozen=True, slots=True)
class ShadowArm:
    """Gets copies of requests of the first arm. No client sees its answers."""

    name: str
    models: tuple[Target, ...]
    share: float
    cost_per_day: float
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    aliases: Texts  #: patterns for client names
    unit: str
    arms: tuple[Arm, ...]  #: the first one is the control
    shadows: tuple[ShadowArm, ...] = ()
    first_day: date = date.min
    last_day: date = date.max
    keys: Texts = ("*",)  #: patterns for the names of client keys
    except_keys: Texts = ()
    testers: Texts = ()  #: patterns for the names of keys that may choose their arm

    @property
    def control(self) -> Arm:
        return self.arms[0]

    def runs(self, day: date) -> bool:
        return self.first_day <= day <= self.last_day


# --- experiments.toml ---------------------------------------------------------------------------------

Thinking = Annotated[str, OneOf(("none", *LEVELS))]
#: Days are in UTC; `until` is the last one.
ROW: Mapping[str, Shape] = {
    "name": shape_of(Name),
    "aliases": shape_of(Texts),
    "unit": shape_of(Annotated[str, OneOf((CONVERSATION, KEY))]),
    "from": shape_of(date),
    "until": shape_of(date),
    "keys": shape_of(Texts),
    "except_keys": shape_of(Texts),
    "testers": shape_of(Texts),
    "arm": shape_of(list[dict[str, Any]]),
    "shadow": shape_of(list[dict[str, Any]]),
}
ARM: Mapping[str, Shape] = {
    "name": shape_of(Name),
    "weight": shape_of(Annotated[int, Range(1, 10_000)]),
    "model": shape_of(Texts),
    "thinking": shape_of(Thinking),
}
SHADOW: Mapping[str, Shape] = {
    "name": shape_of(Name),
    "model": shape_of(Texts),
    "thinking": shape_of(Thinking),
    "share": shape_of(Annotated[float, Range(0.0001, 1)]),
    "cost_per_day": shape_of(Annotated[float, Range(0.01, 1_000_000)]),
}
TABLE: Mapping[str, Shape] = {"experiment": shape_of(list[dict[str, Any]])}

DEFAULT_SHARE = 0.01


def load_experiments(
    path: Path, models: ModelTable | None = None, prices: PriceTable | None = None
) -> tuple[Experiment, ...]:
    """The rows of the file. Without `models` and `prices`, the names of models are not checked."""
    where = label(path)
    table = read_table(where, TABLE, read_toml(path))
    found: dict[str, Experiment] = {}
    for number, written in enumerate(table.get("experiment", ()), start=1):
        place = f"{where}: [[experiment]] {number}"
        experiment = _experiment(place, written, models or ModelTable(("",)))
        _reject_second_use(place, experiment, found)
        if models is not None and prices is not None:
            _check_models(place, experiment, models, prices)
        found[place] = experiment
    return tuple(found.values())


def _experiment(where: str, written: dict[str, Any], models: ModelTable) -> Experiment:
    values = read_table(where, ROW, written)
    _require(where, values, "name", "aliases", "arm")
    arms = tuple(_arm(place, row, models) for place, row in _numbered(where, values, "arm"))
    shadows = tuple(_shadow(place, row, models) for place, row in _numbered(where, values, "shadow"))
    _reject_equal_names(where, [*arms, *shadows])
    if len(arms) < 2 and not shadows:
        raise SettingsError(f"{where}: arm: there must be two arms, or one arm and a shadow")
    first_day, last_day = values.get("from", date.min), values.get("until", date.max)
    if first_day > last_day:
        raise SettingsError(f"{where}: from: {first_day} is after until, {last_day}")
    named = {name: values[name] for name in ("keys", "except_keys", "testers") if name in values}
    unit = values.get("unit", CONVERSATION)
    return Experiment(values["name"], values["aliases"], unit, arms, shadows, first_day, last_day, **named)


def _arm(where: str, row: dict[str, Any], models: ModelTable) -> Arm:
    values = read_table(where, ARM, row)
    _require(where, values, "name", "weight")
    return Arm(values["name"], values["weight"], _targets(values, models), values.get("thinking", ""))


def _shadow(where: str, row: dict[str, Any], models: ModelTable) -> ShadowArm:
    values = read_table(where, SHADOW, row)
    _require(where, values, "name", "model", "cost_per_day")
    return ShadowArm(
        values["name"],
        _targets(values, models),
        values.get("share", DEFAULT_SHARE),
        values["cost_per_day"],
        values.get("thinking", ""),
    )


def _targets(values: Mapping[str, Any], models: ModelTable) -> tuple[Target, ...]:
    return tuple(map(models.routes.target, values.get("model", ())))


def _numbered(where: str, table: Mapping[str, Any], key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, row in enumerate(table.get(key, ()), start=1):
        yield f"{where}: [[{key}]] {number}", row


def _require(where: str, values: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if not values.get(key):
            raise SettingsError(f"{where}: {key} is missing")


# --- what does not fit together -----------------------------------------------------------------------


def _reject_equal_names(where: str, arms: Sequence[Arm | ShadowArm]) -> None:
    names = [arm.name for arm in arms]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(
                f"{where}: name: there are two arms named {name}; give each a name of its own"
            )


def _reject_second_use(where: str, new: Experiment, others: Mapping[str, Experiment]) -> None:
    for place, other in others.items():
        number = place.rpartition(" ")[2]
        if other.name == new.name:
            raise SettingsError(f"{where}: name: [[experiment]] {number} has the name {new.name} too")
        if not (other.first_day <= new.last_day and new.first_day <= other.last_day):
            continue
        for alias in new.aliases:
            if any(patterns_meet(alias.lower(), each.lower()) for each in other.aliases):
                raise SettingsError(
                    f"{where}: aliases: {alias!r} is in [[experiment]] {number} ({other.name}) at the same "
                    "time; a client name can be in one experiment at a time"
                )


def _check_models(where: str, experiment: Experiment, models: ModelTable, prices: PriceTable) -> None:
    for alias in experiment.aliases:
        if models.is_model(alias):
            raise SettingsError(
                f"{where}: aliases: {alias!r} names models, and a client that names a model gets that model; "
                "name aliases of models.toml"
            )
    for number, arm in enumerate(experiment.arms, start=1):
        place = f"{where}: [[arm]] {number}"
        _check_served(f"{place}: model", arm.models, models)
        _check_thinking(place, arm, models)
    for number, shadow in enumerate(experiment.shadows, start=1):
        place = f"{where}: [[shadow]] {number}"
        _check_served(f"{place}: model", shadow.models, models)
        _check_thinking(place, shadow, models)
        _check_priced(f"{place}: model", shadow.models, prices)


def _check_served(where: str, targets: Iterable[Target], models: ModelTable) -> None:
    for target in targets:
        check_target(where, target, models)
        names_upstream = bool(models.routes.names and target.upstream)
        if not (names_upstream or models.is_model(target.model) or target in models.known_targets):
            raise SettingsError(
                f"{where}: no upstream serves {str(target)!r}: it matches neither pass_through nor a model "
                "in models.toml, nor the models of an upstream in upstreams.toml"
            )


def _check_thinking(where: str, arm: Arm | ShadowArm, models: ModelTable) -> None:
    """Models that models.toml does not describe are not checked."""
    for target in arm.models if arm.thinking else ():
        model = models.capabilities(target.model)
        if model.window and not (model.thinking_levels or model.thinking_budget):
            raise SettingsError(f"{where}: thinking: {str(target)!r} takes no thinking level; leave it out")


def _check_priced(where: str, targets: Iterable[Target], prices: PriceTable) -> None:
    for target in targets:
        if not prices.knows(*target.price_names):
            raise SettingsError(
                f"{where}: {str(target)!r} has no price in prices.toml, so its cost_per_day cannot be kept"
            )
