"""Why an answer on its way must end, if it must. One thread sets the reason, another reads it."""

from __future__ import annotations

from bridge.errors import BridgeError


class Interruption:
    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: BridgeError | None = None
