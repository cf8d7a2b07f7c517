"""The reason why a running answer must stop early, if any. One thread sets it, another thread reads it."""

from __future__ import annotations

from bridge.errors import BridgeError


class Interruption:
    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: BridgeError | None = None
