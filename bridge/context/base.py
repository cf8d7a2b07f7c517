"""The interfaces of the context steps. A step is a pure function on Gemini's values; it does no IO."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Self

from bridge.context.history import History
from bridge.context.window import Window
from bridge.gemini.types import GenerateRequest, JsonObject
from bridge.settings.context import ContextSettings


class ContextStep(ABC):
    """What edits and steps of the ladder have in common."""

    name: ClassVar[str]  #: in the header `x-bridge-context`, in the record and in `explain`

    def __init__(self, settings: ContextSettings) -> None:
        self.settings = settings

    @classmethod
    def wished(cls, settings: ContextSettings, options: JsonObject) -> Self:
        """The step for a request that asks for it with these options."""
        return cls(settings)

    def is_on(self) -> bool:
        """Whether the operator wants this step."""
        return bool(getattr(self.settings, self.name, True))


class Edited(NamedTuple):
    """What an edit made of a request. `request` is the same object if nothing changed."""

    request: GenerateRequest
    changes: int = 0  #: turns, rounds or tool uses that were changed or removed
    notes: tuple[str, ...] = ()


class RequestEdit(ContextStep):
    """A change that does not depend on the window. Every request gets it, so it must be fast."""

    @abstractmethod
    def apply(self, request: GenerateRequest) -> Edited: ...


class ClientEdit(RequestEdit):
    """An edit that only clients ask for, with a trigger of their own.

    A trigger in tokens is compared with the estimate alone. Each worker learns another scale, and all workers
    must clear at the same turn.
    """

    def is_on(self) -> bool:
        return False


class Shortened(NamedTuple):
    """What a step made of a history. `history` is the same object if nothing changed."""

    history: History
    changes: int = 0  #: turns, parts or results that were changed or removed
    #: Whether it suffices that the history fits now. Else it should fit until the grid moves.
    for_now: bool = False


class LadderStep(ContextStep):
    """A step that shortens a history which does not fit into the window of its model.

    Whether it changes turn `i` must depend only on the turns up to `i` and on `history.before(…)`, which
    moves in steps of the grid. Then the upstream's cache of the prompt stays valid between two moves.
    """

    @abstractmethod
    def apply(self, history: History, window: Window) -> Shortened: ...
