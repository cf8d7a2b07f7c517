"""Model names: which Gemini model a client's name means, and what that model can do.

Everything comes from `config/models.toml`; no model is named in the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from bridge.gemini.model_capabilities import LEVELS, ModelCapabilities
from bridge.gemini.model_names import plain_name
from bridge.settings.lifecycle import REFUSE, REPLACE, Lifecycle, Retirement, load_lifecycle
from bridge.settings.name_patterns import Patterns
from bridge.settings.source import label, read_toml
from bridge.settings.value import SettingsError, Shape, read_table, shape_of, shapes, suggestion

#: No model's name is longer; clients choose the names, and each one remembered takes memory.
LONGEST_NAME = 256
REMEMBERED_NAMES = 1024


@dataclass(frozen=True, slots=True)
class Alias:
    match: tuple[str, ...]
    model: tuple[str, ...]  #: asked in this order, each if the one before does not exist


@dataclass(frozen=True, slots=True)
class ModelRow:
    match: tuple[str, ...]
    capabilities: ModelCapabilities


class ResolvedModel(NamedTuple):
    """What a client's name stands for today."""

    models: tuple[
        str, ...
    ]  #: asked in this order, each if the one before does not exist; none: see `retired`
    retired: str | None = None  #: the first retired model that the name stood for


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
        #: Client names that can be listed, and the Gemini model that each means.
        self.aliases = tuple((name, row.model[0]) for row in aliases for name in row.match if "*" not in name)
        #: The models that each row of the table turns a client's name into.
        self.target_rows = tuple(dict.fromkeys((tuple(default), *(row.model for row in aliases))))
        #: The first choice of each of these rows.
        self.targets = tuple(dict.fromkeys(row[0] for row in self.target_rows))
        self._default_row = tuple(default)
        self._pass_through = Patterns(pass_through)
        self._aliases = [(Patterns(row.match), row.model) for row in (*embeddings, *aliases)]
        self._rows = [(Patterns(row.match), row.capabilities) for row in rows]
        self._remembered_meaning = lru_cache(REMEMBERED_NAMES)(self._find_meaning)
        self._remembered_traits = lru_cache(REMEMBERED_NAMES)(self._find_capabilities)

    @property
    def named(self) -> tuple[str, ...]:
        """Every model that a client's name can lead to, also where another model fails."""
        targets = (model for row in self.target_rows for model in row)
        fallbacks = (model for _, capabilities in self._rows for model in capabilities.fallbacks)
        return tuple(dict.fromkeys((*targets, *fallbacks)))

    def meaning(self, name: str, day: date | None = None) -> ResolvedModel:
        """The Gemini models that the client's name means."""
        return self._remembered_meaning(None if len(name) > LONGEST_NAME else name, day or today())

    def resolve(self, name: str) -> str:
        """The first of these models; a retired one that nothing replaces stands for itself."""
        meaning = self.meaning(name)
        return meaning.models[0] if meaning.models else meaning.retired or self.default

    def retirement(self, model: str) -> Retirement | None:
        return self.lifecycle.retired(model, today())

    def capabilities(self, model: str) -> ModelCapabilities:
        return ModelCapabilities() if len(model) > LONGEST_NAME else self._remembered_traits(model)

    def _find_meaning(self, name: str | None, day: date) -> ResolvedModel:
        row = self._default_row if name is None else self._row_of(plain_name(name))
        retired = next((model for model in row if self.lifecycle.retired(model, day)), None)
        if retired is None:
            return ResolvedModel(row)
        return ResolvedModel(
            tuple(dict.fromkeys(each for model in row for each in self._living(model, day))), retired
        )

    def _living(self, model: str, day: date) -> Iterable[str]:
        row = self.lifecycle.retired(model, day)
        if row is not None and row.shut_down and self.retired == REFUSE:
            return ()
        return self.lifecycle.living(model, day)

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
        # Signatures of a model whose kin is not known are for that model alone.
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
    path: Path, default_override: str = "", retired: str = REPLACE, delivered: Path | None = None
) -> ModelTable:
    """`delivered` is the table that came with this version: where the file says nothing of retired models, as
    one that was written for an earlier version does, these rows of the delivered table count."""
    where = label(path)
    table = read_table(where, TABLE, read_toml(path))
    _require(where, table, "default")
    default = (
        TABLE["default"].read("DEFAULT_MODEL", default_override) if default_override else table["default"]
    )
    return ModelTable(
        _bare(default),
        table.get("pass_through", ()),
        [_alias(f"{where}: [[alias]] {number}", row) for number, row in _numbered(table, "alias")],
        [_model(f"{where}: [[model]] {number}", row) for number, row in _numbered(table, "model")],
        _lifecycle(where, table, delivered),
        retired,
        [_alias(f"{where}: [[embedding]] {number}", row) for number, row in _numbered(table, "embedding")],
    )


def _lifecycle(where: str, table: Mapping[str, Any], delivered: Path | None) -> Lifecycle:
    if "lifecycle" in table or delivered is None:
        return load_lifecycle(where, table.get("lifecycle", ()))
    return load_lifecycle(label(delivered), read_toml(delivered).get("lifecycle", ()))


def _bare(models: Iterable[str]) -> tuple[str, ...]:
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
    return Alias(values["match"], _bare(values["model"]))


def _model(where: str, row: dict[str, Any]) -> ModelRow:
    values = read_table(where, MODEL_ROW, row)
    _require(where, values, "match")
    match = values.pop("match")
    capabilities = ModelCapabilities(**values)
    for level in capabilities.thinking_levels:
        if level not in LEVELS:
            raise SettingsError(
                f"{where}: thinking_levels: {level} is not a level; {suggestion(level, LEVELS)}"
            )
    if capabilities.thinking_levels and capabilities.thinking_budget:
        raise SettingsError(
            f"{where}: thinking_budget and thinking_levels: a model has one of them, not both"
        )
    return ModelRow(match, capabilities)
