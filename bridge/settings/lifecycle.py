"""Models that Google has retired: the date, and the models that replace them.

`shut_down` is the day from which Google answers 404; `rerouted` is the day from which Google uses another
model for the old name. A row has no effect before its date; `doctor` lists it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from bridge.settings.name_patterns import Patterns
from bridge.settings.value import SettingsError, Shape, read_table, shape_of

REPLACE = "replace"
REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Retirement:
    match: tuple[str, ...]
    since: date
    shut_down: bool  #: True: Google answers 404; False: Google uses the replacement itself
    replacement: tuple[str, ...] = ()  #: the first of these that exists is used


class Lifecycle:
    def __init__(self, rows: Sequence[Retirement] = ()) -> None:
        self.rows = tuple(rows)
        self._patterns = [(Patterns(row.match), row) for row in rows]

    def row_of(self, model: str) -> Retirement | None:
        """The row of the model, even if its date is in the future."""
        return next((row for patterns, row in self._patterns if patterns.match(model)), None)

    def retired(self, model: str, today: date) -> Retirement | None:
        row = self.row_of(model)
        return row if row is not None and row.since <= today else None

    def usable_models(self, model: str, today: date) -> Iterator[str]:
        """The model itself, or its replacements if it is retired; nothing if there is no replacement."""
        row = self.retired(model, today)
        if row is None:
            yield model
            return
        for replacement in row.replacement:
            yield from self.usable_models(replacement, today)

    def loop_from(self, row: Retirement, seen: tuple[Retirement, ...] = ()) -> str | None:
        """A replacement of the row that leads back to the row; None if there is no such loop."""
        for replacement in row.replacement:
            following = self.row_of(replacement)
            if following is None:
                continue
            if following in (row, *seen) or self.loop_from(following, (*seen, row)):
                return replacement
        return None


# --- loading -----------------------------------------------------------------------------------------

ROW: Mapping[str, Shape] = {
    "match": shape_of(tuple[str, ...]),
    "shut_down": shape_of(date),
    "rerouted": shape_of(date),
    "replacement": shape_of(tuple[str, ...]),
}


def load_lifecycle(where: str, written: Sequence[dict[str, Any]]) -> Lifecycle:
    """Read the [[lifecycle]] rows. `where` is the name of the file for error messages."""
    lifecycle = Lifecycle(
        [_row(f"{where}: [[lifecycle]] {number}", row) for number, row in enumerate(written, start=1)]
    )
    for number, row in enumerate(lifecycle.rows, start=1):
        if looping := lifecycle.loop_from(row):
            models = ", ".join(row.match)
            raise SettingsError(
                f"{where}: [[lifecycle]] {number}: replacement: {looping} leads back to {models}"
            )
    return lifecycle


def _row(where: str, written: dict[str, Any]) -> Retirement:
    values = read_table(where, ROW, written)
    if not values.get("match"):
        raise SettingsError(f"{where}: match is missing")
    if ("shut_down" in values) == ("rerouted" in values):
        raise SettingsError(f"{where}: set either shut_down or rerouted, not both")
    shut_down = "shut_down" in values
    since = values["shut_down" if shut_down else "rerouted"]
    if not shut_down and not values.get("replacement"):
        raise SettingsError(f"{where}: replacement is missing; a row with rerouted needs it")
    return Retirement(values["match"], since, shut_down, values.get("replacement", ()))
