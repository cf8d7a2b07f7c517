"""Agents as models. The layer `bridge/agents/` is imported when an agent is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from bridge.errors import BridgeError
from bridge.gemini.model_names import plain_name
from bridge.gemini.types import GenerateRequest
from bridge.settings import Settings
from bridge.state.agent_run_store import AgentRunStore, RunStarter
from bridge.upstream.base import AnswerStream

if TYPE_CHECKING:
    from bridge.agents.directory import AgentDirectory
    from bridge.agents.tool_loop import RunObserver

PREFIX = "agent/"  #: of an agent's name as a model

AskModel = Callable[[GenerateRequest], AnswerStream]


class ResumedRun(NamedTuple):
    stream: AnswerStream
    model: str  #: the name of the agent
    key: str | None  #: the name of the key that started the run, and whose usage it is


class AgentModels:
    """The agents of one process."""

    def __init__(self, settings: Settings, store: AgentRunStore) -> None:
        self._settings = settings
        self._store = store
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
        who: RunStarter,
        refusal: Callable[[], BridgeError | None],
    ) -> AnswerStream:
        """A run of the agent that the request names. `refusal` is asked before each round but the first: an
        error ends the run, for example because a budget is used up."""
        from bridge.agents.directory import RunSetting
        from bridge.agents.run_record import recorder

        observe = recorder(self._store, self._settings.agent_runs.record, who)
        permitted = asking_while_permitted(ask, refusal)
        return self.directory.run(_name(asked), asked, RunSetting(permitted, new_id, observe))

    def resume(self, run_id: str, ask: AskModel, new_id: Callable[[str], str]) -> ResumedRun:
        """Go on with a run after its last finished round. Raises NotResumable."""
        from bridge.agents.directory import RunSetting
        from bridge.agents.run_record import NotResumable, RunRecorder, last_request, read_lines

        lines = read_lines(self._store, run_id)
        request = last_request(lines)
        name = str(lines[0]["agent"])
        if self._settings.agents is None or name not in self.directory:
            raise NotResumable(f"there is no agent {name!r} any more")
        who = RunStarter(lines[0].get("key"), str(lines[0].get("request_id")))
        kept = RunRecorder(self._store, run_id, name, who, texts=True, number=len(lines))

        def observe(nested_id: str, agent: str) -> RunObserver:
            if nested_id == run_id:
                return kept
            return RunRecorder(self._store, nested_id, agent, who, texts=True)

        stream = self.directory.resume(name, run_id, request, RunSetting(ask, new_id, observe))
        return ResumedRun(stream, PREFIX + name, who.key)

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
