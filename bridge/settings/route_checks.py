"""Checks that models.toml and upstreams.toml fit together; each error names the file and the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bridge.settings.models import Alias, ModelRow, ModelTable
from bridge.settings.routes import Target
from bridge.settings.upstreams import DEFAULT, FILE
from bridge.settings.value import SettingsError, suggestion

#: The rows of models.toml, each under its place for messages: `models.toml: [[alias]] 2`.
Aliases = Mapping[str, Alias]
ModelRows = Mapping[str, ModelRow]


def check_routes(where: str, table: ModelTable, aliases: Aliases, rows: ModelRows) -> None:
    """Raises SettingsError. `where` is the name of the file with the models."""
    for place, alias in aliases.items():
        _check_upstream(place, alias.upstream, table)
    for place, row in rows.items():
        _check_upstream(place, row.upstream, table)
    if not table.routes.names:
        return
    for place, target in _written_targets(where, table, aliases, rows):
        check_target(place, target, table)
    _check_patterns(table)
    for place, row in rows.items():
        for model in row.match:
            _check_fallbacks(place, model, row.capabilities.fallbacks, table)


def _check_upstream(place: str, name: str, table: ModelTable) -> None:
    known = _known(table)
    if name and name not in known:
        raise SettingsError(f"{place}: upstream: no upstream is named {name!r}; {suggestion(name, known)}")


def _known(table: ModelTable) -> tuple[str, ...]:
    return (*table.routes.names, *((DEFAULT,) if table.routes.default else ()))


# --- targets ------------------------------------------------------------------------------------------


def _written_targets(
    where: str, table: ModelTable, aliases: Aliases, rows: ModelRows
) -> Iterator[tuple[str, Target]]:
    yield from ((f"{where}: default", target) for target in table.target_rows[0])
    for place, alias in aliases.items():
        for model in alias.model:
            yield f"{place}: model", table.routes.target(model, alias.upstream)
    for place, row in rows.items():
        for model in row.capabilities.fallbacks:
            yield f"{place}: fallbacks", table.routes.target(model)


def check_target(place: str, target: Target, table: ModelTable) -> None:
    """Raises SettingsError if no upstream serves the target."""
    if target.upstream:
        _check_name(place, target, table)
        return
    name, colon, _ = target.model.partition(":")
    serving = table.upstreams_of(target.model)
    if not serving:
        raise SettingsError(
            f"{place}: no upstream serves {target.model!r}: add it to the models of an upstream in {FILE}, "
            "name another model here, or set GEMINI_API_KEY"
        )
    if colon and serving == (DEFAULT,):
        known = _known(table)
        raise SettingsError(
            f"{place}: {target.model!r} names no upstream before its colon, and no upstream serves a model "
            f"of this name; {suggestion(name, known)}"
        )


def _check_name(place: str, target: Target, table: ModelTable) -> None:
    if target.upstream == DEFAULT and not table.routes.default:
        raise SettingsError(
            f"{place}: {DEFAULT}:{target.model}: the section [upstream] names no upstream; "
            "set GEMINI_API_KEY or upstream.transport"
        )


def _check_patterns(table: ModelTable) -> None:
    for row in table.routes.rows:
        for pattern in row.models:
            serving = table.upstreams_of(pattern)  # a row that covers the pattern matches its text too
            if row.name not in serving:
                raise SettingsError(
                    f"{row.location_in_file}: models: {pattern!r} has no effect, because a [[model]] row "
                    f"in models.toml sends these models to {', '.join(serving)}; remove one of the two"
                )


# --- loops of fallbacks -------------------------------------------------------------------------------


def _check_fallbacks(place: str, model: str, fallbacks: Sequence[str], table: ModelTable) -> None:
    for target in map(table.routes.target, fallbacks):
        if target == Target("", model):
            raise SettingsError(f"{place}: fallbacks: {model} is a fallback of itself; remove it")
        if _leads_to(model, target.model, table, {target.model}):
            raise SettingsError(
                f"{place}: fallbacks: {target} leads back to {model}; remove one of these fallbacks"
            )


def _leads_to(model: str, start: str, table: ModelTable, seen: set[str]) -> bool:
    """Whether the fallbacks of `start`, another model, lead to `model`."""
    if start == model:  # the same model at another upstream
        return False
    following = [target.model for target in table.fallbacks(start)]
    if model in following:
        return True
    new = [each for each in following if each not in seen]
    return any(_leads_to(model, each, table, seen | set(new)) for each in new)
