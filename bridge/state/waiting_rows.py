"""Rows that wait in a local file until a database takes them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from bridge.state.store import Store


class WaitingRow(NamedTuple):
    id: str  #: by which the database notices a row that arrives twice
    values: list[Any]  #: texts, numbers, lists of them, None


class WaitingRows(Store):
    """Shared by the workers of a machine. A row that was added survives the end of its worker."""

    @abstractmethod
    def add(self, row: WaitingRow, held: float = 0.0) -> bool:
        """False if the file is full. `held`: seconds for which no worker takes the row."""

    @abstractmethod
    def take(self, most: int) -> Sequence[WaitingRow]:
        """The oldest rows. No other worker gets them for a few seconds, unless they are given back."""

    @abstractmethod
    def give_back(self, rows: Iterable[WaitingRow]) -> None: ...

    @abstractmethod
    def remove(self, rows: Iterable[WaitingRow]) -> None:
        """Called after the database has committed the rows."""

    @abstractmethod
    def count(self) -> int: ...
