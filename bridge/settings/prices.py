"""What tokens cost, by `config/prices.toml`. No model and no price is named in the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from bridge.gemini.types import Usage
from bridge.settings.models import LONGEST_NAME, REMEMBERED_NAMES
from bridge.settings.name_patterns import Patterns
from bridge.settings.source import label, read_toml
from bridge.settings.value import Range, SettingsError, Shape, read_table, shape_of

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Of a million tokens each."""

    input: float
    cached: float
    output: float

    def of(self, usage: Usage) -> float:
        cached = min(usage.cached, usage.prompt)  # Gemini's count of the prompt includes what it had cached
        spent = (usage.prompt - cached) * self.input + cached * self.cached + usage.output * self.output
        return spent / MILLION


@dataclass(frozen=True, slots=True)
class PriceRow:
    match: tuple[str, ...]
    price: Price | None = None  #: none: the models have a price that is not known
    prompt_up_to: int | None = None


class PriceTable:
    def __init__(self, currency: str = "USD", rows: Sequence[PriceRow] = ()) -> None:
        self.currency = currency
        self._rows = [(Patterns(row.match), row) for row in rows]
        self._remembered = lru_cache(REMEMBERED_NAMES)(self._rows_of)

    def cost_of(self, usage: Usage, model: str) -> float | None:
        """In the table's currency; None if the upstream's model has no known price."""
        if len(model) > LONGEST_NAME:
            return None
        for row in self._remembered(model):
            if row.prompt_up_to is None or usage.prompt <= row.prompt_up_to:
                return None if row.price is None else row.price.of(usage)
        return None

    def _rows_of(self, model: str) -> tuple[PriceRow, ...]:
        name = model.removeprefix("models/")
        return tuple(row for patterns, row in self._rows if patterns.match(name))


FREE = PriceTable(rows=[PriceRow(("*",), Price(0, 0, 0))])


# --- loading -----------------------------------------------------------------------------------------

Amount = Annotated[float, Range(0, 1_000_000)]

TABLE: Mapping[str, Shape] = {"currency": shape_of(str), "price": shape_of(list[dict[str, Any]])}
ROW: Mapping[str, Shape] = {
    "match": shape_of(tuple[str, ...]),
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
    rows = enumerate(table.get("price", ()), start=1)
    return PriceTable(
        table["currency"], [_row(f"{where}: [[price]] {number}", written) for number, written in rows]
    )


def _row(where: str, written: dict[str, Any]) -> PriceRow:
    values = read_table(where, ROW, written)
    if not values.get("match"):
        raise SettingsError(f"{where}: match is missing")
    return PriceRow(values["match"], _price(where, values), values.get("prompt_up_to"))


def _price(where: str, values: Mapping[str, Any]) -> Price | None:
    if not values.keys() & {"input", "cached", "output"}:
        return None
    for key in ("input", "output"):
        if key not in values:
            raise SettingsError(f"{where}: {key} is missing")
    return Price(values["input"], values.get("cached", values["input"]), values["output"])
