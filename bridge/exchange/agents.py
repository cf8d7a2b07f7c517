"""Agents as models. The layer `bridge/agents/` is imported when an agent is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bridge.errors import BridgeError
from bridge.gemini.model_names import plain_name
from bridge.gemini.types import GenerateRequest
from bridge.settings import Settings
from bridge.upstream.base import AnswerStream

if TYPE_CHECKING:
    from bridge.agents.directory import AgentDirectory

PREFIX = "agent/"  #: of an agent's name as a model

AskModel = Callable[[GenerateRequest], AnswerStream]


class AgentModels:
    """The agents of one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._names = frozenset(settings.models.agents)
        self._lock = threading.Lock()
        self._directory: AgentDirectory | None = None

    def serve(self, model: str) -> bool:
        """Whether this client's name of a model is the name of an agent."""
        return bool(self._names) and plain_name(model) in self._names

    def losses(self, asked: GenerateRequest) -> Iterable[str]:
        """What of the client's request the agent does not use."""
        return self.directory[_name(asked)].losses(asked)

    def answer(
        self,
        asked: GenerateRequest,
        ask: AskModel,
        new_id: Callable[[str], str],
        refusal: Callable[[], BridgeError | None],
    ) -> AnswerStream:
        """A run of the agent that the request names. `refusal` is asked before each round but the first: an
        error ends the run, for example because a budget is used up."""
        from bridge.agents.directory import RunSetting

        return self.directory.run(
            _name(asked), asked, RunSetting(asking_while_permitted(ask, refusal), new_id)
        )

    @property
    def directory(self) -> AgentDirectory:
        """Built once. Raises SettingsError if the settings make no sense together."""
        with self._lock:
            if self._directory is None:
                from bridge.agents.directory import AgentDirectory

                assert self._settings.agents is not None
                self._directory = AgentDirectory(self._settings.agents, self._settings.guards)
            return self._directory


def asking_while_permitted(ask: AskModel, refusal: Callable[[], BridgeError | None]) -> AskModel:
    first = True

    def ask_if_permitted(request: GenerateRequest) -> AnswerStream:
        nonlocal first
        error, first = None if first else refusal(), False
        if error is not None:
            raise error
        return ask(request)

    return ask_if_permitted


def _name(asked: GenerateRequest) -> str:
    return plain_name(asked.model).removeprefix(PREFIX)
