"""Cool-downs shared by all workers: what one of them was refused, the others need not try."""

from __future__ import annotations

from bridge.state.expiring_names import ExpiringNames


class SharedCooldowns(ExpiringNames):
    def rest(self, name: str, seconds: float) -> None:
        self.add(name, seconds)
