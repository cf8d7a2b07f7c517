"""The three levels of a recording: how much of the values of a request it contains.

A level cannot be raised afterwards, since what it leaves out is never written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from bridge.recorder.masking import mask_pieces, masked, masked_text
from bridge.recorder.shape import Shape, declared_tools

SHAPE, MASKED, FULL = "shape", "masked", "full"


class Level(Protocol):
    def value(self, value: Any) -> Any:
        """A JSON value as the flight may contain it."""

    def note(self, name: str) -> str:
        """A note; a text that the client chose may follow its name after a colon."""

    def stream(self, values: list[Any]) -> list[Any]:
        """The values of one stream, of which a text may be cut into pieces."""


class ShapeLevel:
    def __init__(self, bodies: Collection[Any]) -> None:
        """`bodies`: those of the requests; they declare the tools whose names are kept."""
        self._shape = Shape(frozenset().union(*map(declared_tools, bodies)))

    def value(self, value: Any) -> Any:
        return self._shape.of(value)

    def note(self, name: str) -> str:
        return name.partition(":")[0]

    def stream(self, values: list[Any]) -> list[Any]:
        return [self._shape.of(value) for value in values]


class MaskedLevel:
    def __init__(self, _bodies: Collection[Any]) -> None:
        pass

    def value(self, value: Any) -> Any:
        return masked(value)

    def note(self, name: str) -> str:
        return masked_text(name)

    def stream(self, values: list[Any]) -> list[Any]:
        return mask_pieces([masked(value) for value in values])


class FullLevel:
    def __init__(self, _bodies: Collection[Any]) -> None:
        pass

    def value(self, value: Any) -> Any:
        return value

    def note(self, name: str) -> str:
        return name

    def stream(self, values: list[Any]) -> list[Any]:
        return values


LEVELS: Mapping[str, Callable[[Collection[Any]], Level]] = {
    SHAPE: ShapeLevel,
    MASKED: MaskedLevel,
    FULL: FullLevel,
}
