"""Reads `config/models.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bridge.gemini.model_capabilities import CHOICES, LEVELS, ModelCapabilities
from bridge.settings.lifecycle import REPLACE, Lifecycle, load_lifecycle
from bridge.settings.models import Alias, ModelRow, ModelTable
from bridge.settings.route_checks import check_routes
from bridge.settings.routes import Routes
from bridge.settings.source import label, read_toml
from bridge.settings.value import SettingsError, Shape, read_table, shape_of, shapes, suggestion

TABLE: Mapping[str, Shape] = {
    "default": shape_of(tuple[str, ...]),
    "pass_through": shape_of(tuple[str, ...]),
    "lifecycle": shape_of(list[dict[str, Any]]),
    "alias": shape_of(list[dict[str, Any]]),
    "embedding": shape_of(list[dict[str, Any]]),
    "model": shape_of(list[dict[str, Any]]),
}
ALIAS_ROW: Mapping[str, Shape] = shapes(Alias)
MODEL_ROW: Mapping[str, Shape] = {
    "match": shape_of(tuple[str, ...]),
    "upstream": shape_of(str),
    **shapes(ModelCapabilities),
}


def load_models(
    path: Path,
    default_override: str = "",
    retired: str = REPLACE,
    shipped: Path | None = None,
    routes: Routes | None = None,
) -> ModelTable:
    """Read models.toml. `shipped` is the file of this version: its [[lifecycle]] rows apply if the file at
    `path` has none, for example because it was written for an earlier version."""
    where = label(path)
    table = read_table(where, TABLE, read_toml(path))
    _require(where, table, "default")
    default = (
        TABLE["default"].read("DEFAULT_MODEL", default_override) if default_override else table["default"]
    )
    aliases = {place: _alias(place, row) for place, row in _numbered(where, table, "alias")}
    embeddings = {place: _alias(place, row) for place, row in _numbered(where, table, "embedding")}
    rows = {place: _model(place, row) for place, row in _numbered(where, table, "model")}
    models = ModelTable(
        _without_prefix(default),
        table.get("pass_through", ()),
        tuple(aliases.values()),
        tuple(rows.values()),
        _lifecycle(where, table, shipped),
        retired,
        tuple(embeddings.values()),
        routes,
    )
    if routes is not None:
        check_routes(where, models, {**aliases, **embeddings}, rows)
    return models


def _lifecycle(where: str, table: Mapping[str, Any], shipped: Path | None) -> Lifecycle:
    if "lifecycle" in table or shipped is None:
        return load_lifecycle(where, table.get("lifecycle", ()))
    return load_lifecycle(label(shipped), read_toml(shipped).get("lifecycle", ()))


def _without_prefix(models: Iterable[str]) -> tuple[str, ...]:
    return tuple(model.removeprefix("models/") for model in models)


def _numbered(where: str, table: Mapping[str, Any], key: str) -> Iterable[tuple[str, dict[str, Any]]]:
    for number, row in enumerate(table.get(key, ()), start=1):
        yield f"{where}: [[{key}]] {number}", row


def _require(where: str, row: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if not row.get(key):
            raise SettingsError(f"{where}: {key} is missing")


def _alias(where: str, row: dict[str, Any]) -> Alias:
    values = read_table(where, ALIAS_ROW, row)
    _require(where, values, "match", "model")
    return Alias(values["match"], _without_prefix(values["model"]), values.get("upstream", ""))


def _model(where: str, row: dict[str, Any]) -> ModelRow:
    values = read_table(where, MODEL_ROW, row)
    _require(where, values, "match")
    match, upstream = values.pop("match"), values.pop("upstream", "")
    capabilities = ModelCapabilities(**values)
    for level in capabilities.thinking_levels:
        if level not in LEVELS:
            raise SettingsError(
                f"{where}: thinking_levels: {level} is not a thinking level; {suggestion(level, LEVELS)}"
            )
    for name, allowed in CHOICES.items():
        if (value := values.get(name, allowed[0])) not in allowed:
            raise SettingsError(
                f"{where}: {name}: {value} is not a possible value; {suggestion(value, allowed)}"
            )
    if capabilities.thinking_levels and capabilities.thinking_budget:
        raise SettingsError(f"{where}: set either thinking_budget or thinking_levels, not both")
    return ModelRow(match, capabilities, upstream)
