"""Token prices from `config/prices.toml`; the code names no model and no price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from bridge.gemini.service_tier import SERVICE_TIERS, STANDARD
from bridge.gemini.types import Usage
from bridge.settings.models import CACHED_NAMES, LONGEST_NAME, today
from bridge.settings.name_patterns import Patterns
from bridge.settings.source import label, read_toml
from bridge.settings.value import OneOf, Range, SettingsError, Shape, read_table, shape_of

MILLION = 1_000_000
ALWAYS = date.min  #: the start of a row without `from`
CACHED_DAYS = 4


@dataclass(frozen=True, slots=True)
class Price:
    """Prices per million tokens."""

    input: float
    cached: float
    output: float

    def of(self, usage: Usage) -> float:
        cached = min(usage.cached, usage.prompt)  # Gemini's count of prompt tokens includes the cached tokens
        spent = (usage.prompt - cached) * self.input + cached * self.cached + usage.output * self.output
        return spent / MILLION


@dataclass(frozen=True, slots=True)
class PriceRow:
    match: tuple[str, ...]
    price: Price | None = None  #: None: the price is unknown
    prompt_up_to: int | None = None
    start: date = ALWAYS  #: the first day on which the row is in force


class PriceTable:
    """The first matching row in force gives the price. From its start, a row replaces earlier rows for the
    same pattern."""

    def __init__(
        self,
        currency: str = "USD",
        rows: Sequence[PriceRow] = (),
        factors: Mapping[str, float] | None = None,
    ) -> None:
        """`factors`: the price of each service tier relative to the standard tier."""
        self.currency = currency
        self._rows = rows
        self._factors = {STANDARD: 1.0, **(factors or {})}
        self._in_force = lru_cache(CACHED_DAYS)(self._find_in_force)
        self._rows_of = lru_cache(CACHED_NAMES)(self._find_rows)

    def cost_of(
        self, usage: Usage, *models: str, tier: str = STANDARD, day: date | None = None
    ) -> float | None:
        """The cost at the price of the first of `models` that has one; None if no model has a price."""
        factor = self._factors.get(tier)
        if factor is None:
            return None
        prices = (self._price_of(model, usage.prompt, day or today()) for model in models)
        price = next((found for found in prices if found is not None), None)
        return None if price is None else price.of(usage) * factor

    def knows(self, *models: str, tier: str = STANDARD, day: date | None = None) -> bool:
        """Whether every request has a price, whatever the length of its prompt. `models` are the names of
        one model."""
        return tier in self._factors and any(self._knows(model, day or today()) for model in models)

    def _knows(self, model: str, day: date) -> bool:
        for row in self._rows_of(model[: LONGEST_NAME + 1], day):
            if row.price is None or row.prompt_up_to is None:
                return row.price is not None
        return False

    def next_change(self, day: date) -> PriceRow | None:
        """The next row to come into force."""
        coming = [row for row in self._rows if row.start > day]
        return min(coming, key=lambda row: row.start, default=None)

    def _price_of(self, model: str, prompt: int, day: date) -> Price | None:
        for row in self._rows_of(model[: LONGEST_NAME + 1], day):
            if row.prompt_up_to is None or prompt <= row.prompt_up_to:
                return row.price
        return None

    def _find_rows(self, model: str, day: date) -> tuple[PriceRow, ...]:
        name = model.removeprefix("models/")
        if len(model) > LONGEST_NAME:
            return ()
        return tuple(row for patterns, row in self._in_force(day) if patterns.match(name))

    def _find_in_force(self, day: date) -> list[tuple[Patterns, PriceRow]]:
        begun = [row for row in self._rows if row.start <= day]
        newest: dict[str, date] = {}
        for row in begun:
            for pattern in map(str.lower, row.match):
                newest[pattern] = max(row.start, newest.get(pattern, ALWAYS))
        return [(Patterns(_current_patterns(row, newest)), row) for row in begun]


def _current_patterns(row: PriceRow, newest: Mapping[str, date]) -> list[str]:
    """The patterns of the row that no later row replaces."""
    return [pattern for pattern in row.match if newest[pattern.lower()] == row.start]


FREE = PriceTable(rows=[PriceRow(("*",), Price(0, 0, 0))], factors=dict.fromkeys(SERVICE_TIERS, 1.0))


# --- loading -----------------------------------------------------------------------------------------

Amount = Annotated[float, Range(0, 1_000_000)]

TABLE: Mapping[str, Shape] = {
    "currency": shape_of(str),
    "tier": shape_of(list[dict[str, Any]]),
    "price": shape_of(list[dict[str, Any]]),
}
TIER: Mapping[str, Shape] = {
    "name": shape_of(Annotated[str, OneOf(tuple(tier for tier in SERVICE_TIERS if tier != STANDARD))]),
    "factor": shape_of(Annotated[float, Range(0, 1000)]),
}
ROW: Mapping[str, Shape] = {
    "match": shape_of(tuple[str, ...]),
    "from": shape_of(date),
    "prompt_up_to": shape_of(Annotated[int, Range(1)]),
    "input": shape_of(Amount),
    "cached": shape_of(Amount),
    "output": shape_of(Amount),
}


def load_prices(path: Path) -> PriceTable:
    where = label(path)
    table = read_table(where, TABLE, read_toml(path))
    if "currency" not in table:
        raise SettingsError(f"{where}: currency is missing")
    rows = [_row(place, written) for place, written in _numbered(where, table, "price")]
    _reject_overlaps(where, rows)
    return PriceTable(table["currency"], rows, _factors(_numbered(where, table, "tier")))


def _numbered(where: str, table: Mapping[str, Any], key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, written in enumerate(table.get(key, ()), start=1):
        yield f"{where}: [[{key}]] {number}", written


def _factors(tiers: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, float]:
    factors: dict[str, float] = {}
    for where, written in tiers:
        values = read_table(where, TIER, written)
        for key in TIER:
            if key not in values:
                raise SettingsError(f"{where}: {key} is missing")
        if values["name"] in factors:
            raise SettingsError(f"{where}: name: there are two [[tier]] rows for {values['name']}")
        factors[values["name"]] = values["factor"]
    return factors


def _row(where: str, written: dict[str, Any]) -> PriceRow:
    values = read_table(where, ROW, written)
    if not values.get("match"):
        raise SettingsError(f"{where}: match is missing")
    price, start = _price(where, values), values.get("from", ALWAYS)
    return PriceRow(values["match"], price, values.get("prompt_up_to"), start)


def _price(where: str, values: Mapping[str, Any]) -> Price | None:
    if not values.keys() & {"input", "cached", "output"}:
        return None
    for key in ("input", "output"):
        if key not in values:
            raise SettingsError(f"{where}: {key} is missing")
    return Price(values["input"], values.get("cached", values["input"]), values["output"])


def _reject_overlaps(where: str, rows: Iterable[PriceRow]) -> None:
    """Of two rows with the same pattern, length and day, the second would silently have no effect."""
    seen: dict[tuple[str, int | None, date], int] = {}
    for number, row in enumerate(rows, start=1):
        for pattern in row.match:
            before = seen.setdefault((pattern.lower(), row.prompt_up_to, row.start), number)
            if before != number:
                dated = "without `from`" if row.start == ALWAYS else f"from {row.start}"
                raise SettingsError(
                    f"{where}: [[price]] {number}: from: this row overlaps with [[price]] {before}; "
                    f"both have a price for {pattern} {dated}. Set `from` in the newer row to its first day"
                )
