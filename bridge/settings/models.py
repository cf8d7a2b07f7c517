"""Maps client model names to Gemini models, and Gemini models to their capabilities.

All data comes from `config/models.toml`; the code names no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from bridge.gemini.model_capabilities import CHOICES, LEVELS, ModelCapabilities
from bridge.gemini.model_names import plain_name
from bridge.settings.lifecycle import REFUSE, REPLACE, Lifecycle, Retirement, load_lifecycle
from bridge.settings.name_patterns import Patterns
from bridge.settings.source import label, read_toml
from bridge.settings.value import SettingsError, Shape, read_table, shape_of, shapes, suggestion

#: Longer names match no row. Clients choose the names, and each cached name takes memory.
LONGEST_NAME = 256
CACHED_NAMES = 1024


@dataclass(frozen=True, slots=True)
class Alias:
    match: tuple[str, ...]
    model: tuple[str, ...]  #: the first of these that exists is used


@dataclass(frozen=True, slots=True)
class ModelRow:
    match: tuple[str, ...]
    capabilities: ModelCapabilities


class ResolvedModel(NamedTuple):
    """The Gemini models for a client's name on a given day."""

    #: The first of these that exists is used. Empty if the model is retired without a replacement.
    models: tuple[str, ...]
    retired: str | None = None  #: the first retired model among those that the table names


def today() -> date:
    return datetime.now(UTC).date()


class ModelTable:
    def __init__(
        self,
        default: Sequence[str],
        pass_through: Sequence[str] = (),
        aliases: Sequence[Alias] = (),
        rows: Sequence[ModelRow] = (),
        lifecycle: Lifecycle | None = None,
        retired: str = REPLACE,
        embeddings: Sequence[Alias] = (),
    ) -> None:
        """`embeddings` are aliases of models that do not converse: they are resolved, and listed nowhere."""
        self.default = default[0]
        self.retired = retired
        self.lifecycle = lifecycle or Lifecycle()
        #: Client names without `*`, each with its Gemini model.
        self.aliases = tuple((name, row.model[0]) for row in aliases for name in row.match if "*" not in name)
        #: The lists of Gemini models that client names map to.
        self.target_rows = tuple(dict.fromkeys((tuple(default), *(row.model for row in aliases))))
        #: The first model of each of these lists.
        self.targets = tuple(dict.fromkeys(row[0] for row in self.target_rows))
        self._default_row = tuple(default)
        self._pass_through = Patterns(pass_through)
        self._aliases = [(Patterns(row.match), row.model) for row in (*embeddings, *aliases)]
        self._rows = [(Patterns(row.match), row.capabilities) for row in rows]
        self._cached_meaning = lru_cache(CACHED_NAMES)(self._find_meaning)
        self._cached_capabilities = lru_cache(CACHED_NAMES)(self._find_capabilities)

    @property
    def known_models(self) -> tuple[str, ...]:
        """Every Gemini model that a client name maps to, with all fallbacks."""
        targets = (model for row in self.target_rows for model in row)
        fallbacks = (model for _, capabilities in self._rows for model in capabilities.fallbacks)
        return tuple(dict.fromkeys((*targets, *fallbacks)))

    def meaning(self, name: str, day: date | None = None) -> ResolvedModel:
        """The Gemini models for the client's name."""
        return self._cached_meaning(None if len(name) > LONGEST_NAME else name, day or today())

    def resolve(self, name: str) -> str:
        """The first Gemini model for the client's name; a retired model without a replacement itself."""
        meaning = self.meaning(name)
        return meaning.models[0] if meaning.models else meaning.retired or self.default

    def retirement(self, model: str) -> Retirement | None:
        return self.lifecycle.retired(model, today())

    def capabilities(self, model: str) -> ModelCapabilities:
        return ModelCapabilities() if len(model) > LONGEST_NAME else self._cached_capabilities(model)

    def _find_meaning(self, name: str | None, day: date) -> ResolvedModel:
        row = self._default_row if name is None else self._row_of(plain_name(name))
        retired = next((model for model in row if self.lifecycle.retired(model, day)), None)
        if retired is None:
            return ResolvedModel(row)
        return ResolvedModel(
            tuple(dict.fromkeys(each for model in row for each in self._usable_models(model, day))), retired
        )

    def _usable_models(self, model: str, day: date) -> Iterable[str]:
        row = self.lifecycle.retired(model, day)
        if row is not None and row.shut_down and self.retired == REFUSE:
            return ()
        return self.lifecycle.usable_models(model, day)

    def _row_of(self, name: str) -> tuple[str, ...]:
        if self._pass_through.match(name):
            return (name,)
        return next((models for patterns, models in self._aliases if patterns.match(name)), self._default_row)

    def _find_capabilities(self, model: str) -> ModelCapabilities:
        model = model.removeprefix("models/")
        found = next(
            (capabilities for patterns, capabilities in self._rows if patterns.match(model)),
            ModelCapabilities(),
        )
        # Without a known family, only the model itself accepts its signatures.
        return found if found.family else replace(found, family=model)


# --- loading -----------------------------------------------------------------------------------------

TABLE: Mapping[str, Shape] = {
    "default": shape_of(tuple[str, ...]),
    "pass_through": shape_of(tuple[str, ...]),
    "lifecycle": shape_of(list[dict[str, Any]]),
    "alias": shape_of(list[dict[str, Any]]),
    "embedding": shape_of(list[dict[str, Any]]),
    "model": shape_of(list[dict[str, Any]]),
}
ALIAS_ROW: Mapping[str, Shape] = shapes(Alias)
MODEL_ROW: Mapping[str, Shape] = {"match": shape_of(tuple[str, ...]), **shapes(ModelCapabilities)}


def load_models(
    path: Path, default_override: str = "", retired: str = REPLACE, shipped: Path | None = None
) -> ModelTable:
    """Read models.toml. `shipped` is the file of this version: its [[lifecycle]] rows apply if the file at
    `path` has none, for example because it was written for an earlier version."""
    where = label(path)
    table = read_table(where, TABLE, read_toml(path))
    _require(where, table, "default")
    default = (
        TABLE["default"].read("DEFAULT_MODEL", default_override) if default_override else table["default"]
    )
    return ModelTable(
        _without_prefix(default),
        table.get("pass_through", ()),
        [_alias(f"{where}: [[alias]] {number}", row) for number, row in _numbered(table, "alias")],
        [_model(f"{where}: [[model]] {number}", row) for number, row in _numbered(table, "model")],
        _lifecycle(where, table, shipped),
        retired,
        [_alias(f"{where}: [[embedding]] {number}", row) for number, row in _numbered(table, "embedding")],
    )


def _lifecycle(where: str, table: Mapping[str, Any], shipped: Path | None) -> Lifecycle:
    if "lifecycle" in table or shipped is None:
        return load_lifecycle(where, table.get("lifecycle", ()))
    return load_lifecycle(label(shipped), read_toml(shipped).get("lifecycle", ()))


def _without_prefix(models: Iterable[str]) -> tuple[str, ...]:
    return tuple(model.removeprefix("models/") for model in models)


def _numbered(table: Mapping[str, Any], key: str) -> Iterable[tuple[int, dict[str, Any]]]:
    return enumerate(table.get(key, ()), start=1)


def _require(where: str, row: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if not row.get(key):
            raise SettingsError(f"{where}: {key} is missing")


def _alias(where: str, row: dict[str, Any]) -> Alias:
    values = read_table(where, ALIAS_ROW, row)
    _require(where, values, "match", "model")
    return Alias(values["match"], _without_prefix(values["model"]))


def _model(where: str, row: dict[str, Any]) -> ModelRow:
    values = read_table(where, MODEL_ROW, row)
    _require(where, values, "match")
    match = values.pop("match")
    capabilities = ModelCapabilities(**values)
    for level in capabilities.thinking_levels:
        if level not in LEVELS:
            raise SettingsError(
                f"{where}: thinking_levels: {level} is not a thinking level; {suggestion(level, LEVELS)}"
            )
    for name, allowed in CHOICES.items():
        if name in values and values[name] not in allowed:
            raise SettingsError(f"{where}: {name} must be one of: {', '.join(allowed)}")
    if capabilities.thinking_levels and capabilities.thinking_budget:
        raise SettingsError(f"{where}: set either thinking_budget or thinking_levels, not both")
    return ModelRow(match, capabilities)
