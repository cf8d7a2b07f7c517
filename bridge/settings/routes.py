"""Which upstream serves a model: names and patterns of upstreams.toml, and targets such as `name:model`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridge.settings.name_patterns import Patterns
from bridge.settings.upstreams import DEFAULT, UpstreamRow

CATCH_ALL = "*"


class Target(NamedTuple):
    """A model at an upstream."""

    upstream: str  #: empty: each upstream that serves the model
    model: str

    def __str__(self) -> str:
        return self.model if self.upstream in ("", DEFAULT) else f"{self.upstream}:{self.model}"

    @property
    def price_names(self) -> tuple[str, ...]:
        """The names under which prices.toml may have the price; the first one with a price is used."""
        return tuple(dict.fromkeys((str(self), self.model)))


class Routes:
    """Without rows every model is at the upstream of the section [upstream]."""

    def __init__(self, rows: Sequence[UpstreamRow] = (), *, default: bool = True) -> None:
        self.rows = tuple(rows)
        self.names = tuple(row.name for row in rows)
        self.default = default  #: whether the section [upstream] names an upstream
        self._patterns = [(row.name, Patterns(_specific(row.models))) for row in rows]
        self._catch_all = tuple(row.name for row in rows if CATCH_ALL in row.models)
        self._passed = Patterns(pattern for row in rows for pattern in _specific(row.models))

    def target(self, text: str, upstream: str = "") -> Target:
        """The target that a text in models.toml or a client's model name means. `upstream` applies to a text
        without the name of an upstream."""
        if not self.names:
            return Target(DEFAULT, text.removeprefix("models/"))
        name, colon, model = text.removeprefix("models/").partition(":")
        if colon and model and name in (*self.names, DEFAULT):
            return Target(name, model.removeprefix("models/"))
        return Target(upstream, text.removeprefix("models/"))

    def serving(self, model: str) -> tuple[str, ...]:
        """The upstreams that serve the model: those with a matching pattern, else those that serve every
        model, else the default. None may be left."""
        matching = tuple(name for name, patterns in self._patterns if patterns.match(model))
        return matching or self._catch_all or ((DEFAULT,) if self.default else ())

    def passes(self, name: str) -> bool:
        """Whether an upstream serves a model of this name, which is then no alias."""
        return self._passed.match(name)


def _specific(patterns: Iterable[str]) -> list[str]:
    return [pattern for pattern in patterns if pattern != CATCH_ALL]
