"""The agents of the administrator's files, and their runs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from bridge.agents.agent import Agent, check_agent, check_tools, question
from bridge.agents.call_policy import CallPolicy
from bridge.agents.cancellation import Cancellation
from bridge.agents.end_reason import EndReason
from bridge.agents.http_tool import HttpTool
from bridge.agents.mcp.server import McpServerTools
from bridge.agents.scheduler import Scheduler
from bridge.agents.sub_agent import MOST_DEPTH, SubAgentTool
from bridge.agents.tool import DuplicateTool, Tool, ToolRegistry, ToolSource, ToolSourceFailed
from bridge.agents.tool_call import ToolCall
from bridge.agents.tool_loop import AskModel, RunObserver, ToolLoop
from bridge.agents.workspace_tools import WorkspaceTools
from bridge.errors import AgentFailed
from bridge.gemini.types import Content, GenerateRequest, Usage
from bridge.settings.agents import AgentRow, AgentSettings
from bridge.settings.guards import GuardSettings

#: Makes the observer of the run with this id, of the agent with this name.
Observe = Callable[[str, str], RunObserver]


class OwnTools(ToolSource):
    """Tools that belong to no server."""

    label = ""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    def tools(self, cancellation: Cancellation) -> Sequence[Tool]:
        return self._tools


@dataclass(frozen=True, slots=True)
class RunSetting:
    """What the runs of one request share."""

    ask: AskModel
    new_id: Callable[[str], str]
    observe: Observe = lambda _run_id, _name: RunObserver()
    parent: str = ""  #: the id of the run that started this one
    depth: int = 0


class AgentDirectory:
    """Raises SettingsError if the settings make no sense together."""

    def __init__(self, settings: AgentSettings, guards: GuardSettings) -> None:
        sources: list[ToolSource] = [WorkspaceTools(row) for row in settings.workspaces]
        sources.append(OwnTools([HttpTool(row) for row in settings.http_tools]))
        local = [tool for source in sources for tool in source.tools(Cancellation())]
        check_tools(local)
        sources += [McpServerTools(row) for row in settings.mcp_servers]
        servers = [row.name for row in settings.mcp_servers]
        policy = CallPolicy(guards, settings.rules)
        for row in settings.agents:
            check_agent(row, ToolRegistry(local), servers)
        self._agents: Mapping[str, Agent] = {
            row.name: Agent(row, [source for source in sources if _is_used(source, row)], policy)
            for row in settings.agents
        }

    def __contains__(self, name: str) -> bool:
        return name in self._agents

    def __getitem__(self, name: str) -> Agent:
        return self._agents[name]

    def run(self, name: str, asked: GenerateRequest, setting: RunSetting) -> ToolLoop:
        """Begin a run; raises if the model cannot take its first request."""
        run_id = _nested_id(setting.parent, name)
        run = Cancellation()
        registry = self._registry(name, run_id, setting, run)
        request = self._agents[name].request(asked, registry)
        return self._loop(name, run_id, request, registry, setting, run)

    def resume(self, name: str, run_id: str, request: GenerateRequest, setting: RunSetting) -> ToolLoop:
        """Go on with a run. The request is the one that follows its last finished round."""
        run = Cancellation()
        return self._loop(name, run_id, request, self._registry(name, run_id, setting, run), setting, run)

    def _loop(
        self,
        name: str,
        run_id: str,
        request: GenerateRequest,
        registry: ToolRegistry,
        setting: RunSetting,
        run: Cancellation,
    ) -> ToolLoop:
        agent = self._agents[name]
        scheduler = Scheduler(registry, agent.policy, setting.new_id)
        observer = _RunEnd(setting.observe(run_id, name), run)
        return ToolLoop(request, setting.ask, scheduler, agent.limits, agent.task, observer)

    def _registry(self, name: str, run_id: str, setting: RunSetting, run: Cancellation) -> ToolRegistry:
        """`run` is cancelled when the run ends."""
        agent = self._agents[name]
        try:
            return agent.registry(run, self._sub_agents(agent, replace(setting, parent=run_id)))
        except (ToolSourceFailed, DuplicateTool) as error:
            run.cancel()
            raise AgentFailed(f"The tools of the agent cannot be listed: {error}") from None

    def _sub_agents(self, agent: Agent, setting: RunSetting) -> list[Tool]:
        if setting.depth >= MOST_DEPTH:
            return []
        inner = replace(setting, depth=setting.depth + 1)
        return [self._sub_agent(name, inner) for name in agent.row.agents]

    def _sub_agent(self, name: str, setting: RunSetting) -> Tool:
        row = self._agents[name].row
        return SubAgentTool(row, lambda text: self.run(name, question(text, row.model), setting))


class _RunEnd(RunObserver):
    """Tells the sources of a run that it ended."""

    def __init__(self, observer: RunObserver, run: Cancellation) -> None:
        self._observer = observer
        self._run = run

    def run_began(self, request: GenerateRequest) -> None:
        self._observer.run_began(request)

    def round_ended(self, turns: Sequence[Content], calls: Sequence[ToolCall], usage: Usage) -> None:
        self._observer.round_ended(turns, calls, usage)

    def run_ended(self, reason: EndReason, usage: Usage) -> None:
        self._run.cancel()
        self._observer.run_ended(reason, usage)


def _is_used(source: ToolSource, row: AgentRow) -> bool:
    """Whether a pattern of the agent may match a tool of the source."""
    return not source.label or any(fnmatchcase(source.label, name.partition("__")[0]) for name in row.tools)


def _nested_id(parent: str, name: str) -> str:
    own = f"{name}-{secrets.token_hex(4)}"
    return f"{parent}-{own}" if parent else own
