"""The kinds of all errors."""

from __future__ import annotations

from collections.abc import Iterator

from bridge.errors import BridgeError


def every_kind() -> set[str]:
    return {error.kind for error in _below(BridgeError) if hasattr(error, "kind")}


def _below(error: type[BridgeError]) -> Iterator[type[BridgeError]]:
    for each in error.__subclasses__():
        yield each
        yield from _below(each)
