"""An agent: its tools, and the request with which its runs begin."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from bridge.agents.call_policy import CallPolicy
from bridge.agents.cancellation import Cancellation
from bridge.agents.json_schema import BrokenSchema, check_schema
from bridge.agents.run_limits import RunLimits
from bridge.agents.task_output import INSTRUCTION, TaskOutput
from bridge.agents.tool import DuplicateTool, Tool, ToolRegistry, ToolSource
from bridge.gemini import types
from bridge.gemini.losses import AGENT_CANDIDATES, AGENT_INSTRUCTION, AGENT_TOOLS
from bridge.gemini.types import MODEL, USER, Content, GenerateRequest, JsonObject, Part
from bridge.settings.agents import AgentRow
from bridge.settings.value import SettingsError

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
VARIABLES = ("query", "instruction", "date")
#: Settings of the form of the answer. A result by schema replaces them.
_ANSWER_FORM = ("responseMimeType", "responseJsonSchema", "responseSchema")
_CANDIDATES = "candidateCount"
_SAFETY = "safetySettings"


@dataclass(frozen=True, slots=True)
class Agent:
    row: AgentRow
    sources: Sequence[ToolSource]  #: those of which the agent may use a tool
    policy: CallPolicy

    @property
    def limits(self) -> RunLimits:
        return RunLimits(self.row.rounds, self.row.seconds, self.row.tokens)

    @property
    def task(self) -> TaskOutput | None:
        return TaskOutput(self.row.output) if self.row.output else None

    def registry(self, run: Cancellation, more: Sequence[Tool] = ()) -> ToolRegistry:
        """The tools of a run. `run` is cancelled at its end. `more` are those without a source."""
        listed = (tool for source in self.sources for tool in source.tools(run))
        allowed = (tool for tool in listed if self._may_use(tool))
        return ToolRegistry((*allowed, *more))

    def _may_use(self, tool: Tool) -> bool:
        name = tool.description.function_name
        return any(fnmatchcase(name, pattern) for pattern in self.row.tools)

    # --- the request -----------------------------------------------------------------------------------

    def request(self, asked: GenerateRequest, registry: ToolRegistry) -> GenerateRequest:
        """The first request of a run, from the client's request."""
        task = self.task
        declared = (*registry.declarations(), *([task.declaration] if task else []))
        instruction = f"{self.row.instruction}\n\n{INSTRUCTION}" if task else self.row.instruction
        return replace(
            asked,
            model=self.row.model,
            contents=self._contents(asked),
            system=Content(None, (Part(instruction),)),
            tools=(types.Tool(tuple(declared)),) if declared else (),
            tool_config={},
            generation=self._generation(asked.generation),
            draws=False,
            extra={_SAFETY: asked.extra[_SAFETY]} if _SAFETY in asked.extra else {},
        )

    def losses(self, asked: GenerateRequest) -> Iterator[str]:
        """What of the client's request the agent does not use."""
        if asked.tools:
            yield AGENT_TOOLS
        if asked.system is not None and "instruction" not in _VARIABLE.findall(self.row.query):
            yield AGENT_INSTRUCTION
        if asked.generation.get(_CANDIDATES, 1) != 1:
            yield AGENT_CANDIDATES

    def _generation(self, asked: JsonObject) -> JsonObject:
        dropped = (_CANDIDATES, *(_ANSWER_FORM if self.row.output else ()))
        kept = {name: value for name, value in asked.items() if name not in dropped}
        return kept if self.row.temperature is None else {**kept, "temperature": self.row.temperature}

    def _contents(self, asked: GenerateRequest) -> tuple[Content, ...]:
        """The conversation, with the template around the text of the last question."""
        contents = list(asked.contents)
        last = next((at for at in reversed(range(len(contents))) if contents[at].role != MODEL), None)
        if last is None or self.row.query.strip() == "{{query}}":
            return tuple(contents)
        question = contents[last]
        variables = {
            "query": _text(question),
            "instruction": _text(asked.system),
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
        }
        others = tuple(part for part in question.parts if not _is_text(part))
        contents[last] = replace(question, parts=(Part(filled(self.row.query, variables)), *others))
        return tuple(contents)


def question(text: str, model: str) -> GenerateRequest:
    """The request of somebody who only asks."""
    return GenerateRequest(model, (Content(USER, (Part(text),)),))


def filled(template: str, variables: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), template)


def _is_text(part: Part) -> bool:
    return isinstance(part.data, str) and not part.thought


def _text(content: Content | None) -> str:
    return "\n".join(str(part.data) for part in content.parts if _is_text(part)) if content else ""


def check_agent(row: AgentRow, registry: ToolRegistry, servers: Collection[str] = ()) -> None:
    """Raises SettingsError for what only shows when the agent is built. `servers`: the names of servers whose
    tools are not known before a run."""
    where = f"config/agents: agent {row.name}"
    unknown = next((name for name in _VARIABLE.findall(row.query) if name not in VARIABLES), None)
    if unknown is not None:
        raise SettingsError(
            f"{where}: query: there is no variable {unknown!r}; known: {', '.join(VARIABLES)}"
        )
    _check_schema(f"{where}: output", row.output)
    names = [tool.description.function_name for tool in registry]
    for pattern in row.tools:
        named = any(fnmatchcase(server, pattern.partition("__")[0]) for server in servers)
        if not named and not any(fnmatchcase(name, pattern) for name in names):
            raise SettingsError(
                f"{where}: tools: {pattern!r} names no tool; the tools are {', '.join(names)}"
            )


def check_tools(tools: Sequence[Tool]) -> None:
    """Raises SettingsError if two tools have one name, or if a schema is broken."""
    try:
        ToolRegistry(tools)
    except DuplicateTool as error:
        raise SettingsError(f"config/agents: {error}") from None
    for tool in tools:
        description = tool.description
        _check_schema(f"config/agents: {description.function_name}: parameters", description.parameters)


def _check_schema(where: str, schema: Mapping[str, Any]) -> None:
    try:
        if schema:
            check_schema(schema)
    except BrokenSchema as error:
        raise SettingsError(f"{where}: {error}") from None
