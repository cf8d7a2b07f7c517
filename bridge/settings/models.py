"""Maps client model names to Gemini models, and Gemini models to their capabilities.

All data comes from `config/models.toml`, which `models_file.py` reads; the code names no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import NamedTuple

from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.model_names import plain_name
from bridge.settings.lifecycle import REFUSE, REPLACE, Lifecycle, Retirement
from bridge.settings.name_patterns import Patterns
from bridge.settings.routes import CATCH_ALL, Routes, Target

#: Longer names match no row. Clients choose the names, and each cached name takes memory.
LONGEST_NAME = 256
CACHED_NAMES = 1024


@dataclass(frozen=True, slots=True)
class Alias:
    match: tuple[str, ...]
    model: tuple[str, ...]  #: the first of these that exists is used
    upstream: str = ""  #: the upstream of models that name none


@dataclass(frozen=True, slots=True)
class ModelRow:
    match: tuple[str, ...]
    capabilities: ModelCapabilities
    upstream: str = ""  #: the upstream that serves these models; empty: see `Routes`


class ResolvedModel(NamedTuple):
    """The models for a client's name on a given day."""

    #: The first of these that exists is used. Empty if the model is retired without a replacement.
    models: tuple[Target, ...]
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
        routes: Routes | None = None,
    ) -> None:
        """`embeddings` are aliases of models that do not converse: they are resolved, and listed nowhere."""
        self.routes = routes or Routes()
        self.default = default[0]
        self.retired = retired
        self.lifecycle = lifecycle or Lifecycle()
        #: Client names without `*`, each with its model.
        self.aliases = tuple(
            (name, str(self._targets(row)[0])) for row in aliases for name in row.match if "*" not in name
        )
        #: The names of agents, each with its model.
        self.agents: Mapping[str, str] = {}
        self._default_row = tuple(map(self.routes.target, default))
        #: The lists of targets that client names map to.
        self.target_rows = tuple(dict.fromkeys((self._default_row, *map(self._targets, aliases))))
        #: The first model of each of these lists.
        self.targets = tuple(dict.fromkeys(str(row[0]) for row in self.target_rows))
        self._pass_through = Patterns((*pass_through, *_served(rows)))
        self._aliases = [(Patterns(row.match), self._targets(row)) for row in (*embeddings, *aliases)]
        self._rows = [(Patterns(row.match), row) for row in rows]
        self._cached_upstreams = lru_cache(CACHED_NAMES)(self._find_upstreams)
        self._cached_meaning = lru_cache(CACHED_NAMES)(self._find_meaning)
        self._cached_capabilities = lru_cache(CACHED_NAMES)(self._find_capabilities)

    def serve_agents(self, agents: Mapping[str, str]) -> None:
        """Serve agents by these names beside the models. Call it before the first lookup."""
        self.agents = agents

    def _targets(self, alias: Alias) -> tuple[Target, ...]:
        return tuple(self.routes.target(model, alias.upstream) for model in alias.model)

    @property
    def known_targets(self) -> tuple[Target, ...]:
        """Every target that a client name maps to, with all fallbacks."""
        targets = (target for row in self.target_rows for target in row)
        fallbacks = (model for _, row in self._rows for model in row.capabilities.fallbacks)
        return tuple(dict.fromkeys((*targets, *map(self.routes.target, fallbacks))))

    def meaning(self, name: str, day: date | None = None) -> ResolvedModel:
        """The models for the client's name."""
        return self._cached_meaning(None if len(name) > LONGEST_NAME else name, day or today())

    def resolve(self, name: str) -> str:
        """The first model for the client's name; a retired model without a replacement itself."""
        meaning = self.meaning(name)
        return meaning.models[0].model if meaning.models else meaning.retired or self.default

    def retirement(self, model: str) -> Retirement | None:
        return self.lifecycle.retired(model, today())

    def capabilities(self, model: str) -> ModelCapabilities:
        return ModelCapabilities() if len(model) > LONGEST_NAME else self._cached_capabilities(model)

    def upstreams_of(self, model: str) -> tuple[str, ...]:
        """The names of the upstreams that serve the model; empty if there is none."""
        return self.routes.serving("") if len(model) > LONGEST_NAME else self._cached_upstreams(model)

    def fallbacks(self, model: str) -> tuple[Target, ...]:
        return tuple(map(self.routes.target, self.capabilities(model).fallbacks))

    def _find_meaning(self, name: str | None, day: date) -> ResolvedModel:
        return self.in_service(self._default_row if name is None else self._row_of(plain_name(name)), day)

    def in_service(self, row: tuple[Target, ...], day: date | None = None) -> ResolvedModel:
        """The models, with replacements for those that are retired."""
        day = day or today()
        retired = next((target.model for target in row if self.lifecycle.retired(target.model, day)), None)
        if retired is None:
            return ResolvedModel(row)
        return ResolvedModel(
            tuple(dict.fromkeys(each for target in row for each in self._usable_targets(target, day))),
            retired,
        )

    def _usable_targets(self, target: Target, day: date) -> Iterable[Target]:
        row = self.lifecycle.retired(target.model, day)
        if row is not None and row.shut_down and self.retired == REFUSE:
            return ()
        usable = self.lifecycle.usable_models(target.model, day)
        return (target._replace(model=model) for model in usable)

    def is_model(self, name: str) -> bool:
        """Whether the client's name is that of a model, and no alias."""
        plain = plain_name(name)
        at_upstream = bool(self.routes.names and self.routes.target(plain).upstream)
        return at_upstream or self.routes.passes(plain) or self._pass_through.match(plain)

    def _row_of(self, name: str) -> tuple[Target, ...]:
        name = self.agents.get(name, name)
        if self.is_model(name):
            return (self.routes.target(name),)
        return next(
            (targets for patterns, targets in self._aliases if patterns.match(name)), self._default_row
        )

    def _find_upstreams(self, model: str) -> tuple[str, ...]:
        row = self._find_row(model)
        return (row.upstream,) if row is not None and row.upstream else self.routes.serving(model)

    def _find_row(self, model: str) -> ModelRow | None:
        return next((row for patterns, row in self._rows if patterns.match(model)), None)

    def _find_capabilities(self, model: str) -> ModelCapabilities:
        model = model.removeprefix("models/")
        row = self._find_row(model)
        found = row.capabilities if row is not None else ModelCapabilities()
        # Without a known family, only the model itself accepts its signatures.
        return found if found.family else replace(found, family=model)


def _served(rows: Iterable[ModelRow]) -> list[str]:
    """The patterns of rows with an upstream: a client may name these models as they are."""
    return [pattern for row in rows if row.upstream for pattern in row.match if pattern != CATCH_ALL]
