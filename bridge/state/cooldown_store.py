"""Cool-downs shared by all workers: keys and models that no worker should try for a while."""

from __future__ import annotations

from abc import abstractmethod

from bridge.state.store import Store


class CooldownStore(Store):
    """When the store fails, each worker uses the cool-downs that it knows. No method raises StorageError."""

    @abstractmethod
    def rest(self, name: str, seconds: float) -> None:
        """Start a cool-down. A longer one that is running stays."""

    @abstractmethod
    def left(self, name: str) -> float:
        """Seconds until the cool-down ends; 0 if there is none."""
