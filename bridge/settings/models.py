"""Model names: which Gemini model a client's name means, and what that model can do.

Everything comes from `config/models.toml`; no model is named in the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from bridge.gemini.traits import LEVELS, Traits
from bridge.settings.source import label, read_toml
from bridge.settings.value import SettingsError, Shape, read_table, shape_of, shapes, suggestion

#: No model's name is longer; clients choose the names, and each one remembered takes memory.
LONGEST_NAME = 256
REMEMBERED_NAMES = 1024

NOTHING = "(?!)"  #: the expression that matches nothing; an empty one matches the empty name


class Patterns:
    """Names in which `*` stands for anything. Letter case makes no difference."""

    def __init__(self, patterns: Iterable[str]) -> None:
        choices = "|".join(".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
        self._match = re.compile(choices or NOTHING, re.IGNORECASE | re.DOTALL).fullmatch

    def match(self, name: str) -> bool:
        return self._match(name) is not None


@dataclass(frozen=True, slots=True)
class Alias:
    match: tuple[str, ...]
    model: str


@dataclass(frozen=True, slots=True)
class ModelRow:
    match: tuple[str, ...]
    traits: Traits


class ModelTable:
    def __init__(
        self,
        default: str,
        pass_through: Sequence[str] = (),
        aliases: Sequence[Alias] = (),
        rows: Sequence[ModelRow] = (),
    ) -> None:
        self.default = default
        #: Client names that can be listed, and the Gemini model that each means.
        self.aliases = tuple((name, row.model) for row in aliases for name in row.match if "*" not in name)
        #: Every model that a client's name can be turned into.
        self.targets = tuple(dict.fromkeys((default, *(row.model for row in aliases))))
        self._pass_through = Patterns(pass_through)
        self._aliases = [(Patterns(row.match), row.model) for row in aliases]
        self._rows = [(Patterns(row.match), row.traits) for row in rows]
        self._remembered_resolve = lru_cache(REMEMBERED_NAMES)(self._find_model)
        self._remembered_traits = lru_cache(REMEMBERED_NAMES)(self._find_traits)

    def resolve(self, name: str) -> str:
        """The Gemini model that the client's name means."""
        return self.default if len(name) > LONGEST_NAME else self._remembered_resolve(name)

    def traits(self, model: str) -> Traits:
        return Traits() if len(model) > LONGEST_NAME else self._remembered_traits(model)

    def _find_model(self, name: str) -> str:
        name = name.removeprefix("models/")
        if self._pass_through.match(name):
            return name
        return next((model for patterns, model in self._aliases if patterns.match(name)), self.default)

    def _find_traits(self, model: str) -> Traits:
        model = model.removeprefix("models/")
        found = next((traits for patterns, traits in self._rows if patterns.match(model)), Traits())
        # Signatures of a model whose kin is not known are for that model alone.
        return found if found.family else replace(found, family=model)


# --- loading -----------------------------------------------------------------------------------------

TABLE: Mapping[str, Shape] = {
    "default": shape_of(str),
    "pass_through": shape_of(tuple[str, ...]),
    "alias": shape_of(list[dict[str, Any]]),
    "model": shape_of(list[dict[str, Any]]),
}
ALIAS_ROW: Mapping[str, Shape] = shapes(Alias)
MODEL_ROW: Mapping[str, Shape] = {"match": shape_of(tuple[str, ...]), **shapes(Traits)}


def load_models(path: Path, default_override: str | None = None) -> ModelTable:
    where = label(path)
    table = read_table(where, TABLE, read_toml(path))
    _require(where, table, "default")
    default: str = default_override or table["default"]
    return ModelTable(
        default.removeprefix("models/"),
        table.get("pass_through", ()),
        [_alias(f"{where}: [[alias]] {number}", row) for number, row in _numbered(table, "alias")],
        [_model(f"{where}: [[model]] {number}", row) for number, row in _numbered(table, "model")],
    )


def _numbered(table: Mapping[str, Any], key: str) -> Iterable[tuple[int, dict[str, Any]]]:
    return enumerate(table.get(key, ()), start=1)


def _require(where: str, row: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if not row.get(key):
            raise SettingsError(f"{where}: {key} is missing")


def _alias(where: str, row: dict[str, Any]) -> Alias:
    values = read_table(where, ALIAS_ROW, row)
    _require(where, values, "match", "model")
    return Alias(**values)


def _model(where: str, row: dict[str, Any]) -> ModelRow:
    values = read_table(where, MODEL_ROW, row)
    _require(where, values, "match")
    match = values.pop("match")
    traits = Traits(**values)
    for level in traits.thinking_levels:
        if level not in LEVELS:
            raise SettingsError(
                f"{where}: thinking_levels: {level} is not a level; {suggestion(level, LEVELS)}"
            )
    if traits.thinking_levels and traits.thinking_budget:
        raise SettingsError(
            f"{where}: thinking_budget and thinking_levels: a model has one of them, not both"
        )
    return ModelRow(match, traits)
