"""The interface of a tool that the bridge runs, and the registry of the tools of one run.

A tool is declared once, by the administrator's files or by a server that they name. The model calls it by its
function name. The scheduler checks the arguments, asks the policy, and invokes the tool in a thread of its
pool. A tool never starts a process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge.agents.cancellation import Cancellation
from bridge.gemini.hosted_tools import function_name
from bridge.gemini.types import EMPTY, FunctionDeclaration, InlineData, JsonObject, Usage

DEFAULT_TIME_LIMIT = 30.0  #: seconds


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """What the model and the policy know about a tool."""

    name: str  #: as its server or its file names it
    description: str
    parameters: JsonObject = EMPTY  #: JSON Schema of the arguments, an object
    read_only: bool = False  #: changes nothing, so that it may run beside other calls
    unattended: bool = True  #: safe without a person who approves each call
    time_limit: float = DEFAULT_TIME_LIMIT  #: seconds of one call
    server: str = ""  #: the label of the server, workspace or group that the tool belongs to

    @property
    def function_name(self) -> str:
        """The name under which the model calls the tool: `server__name`, or the name alone."""
        return function_name(self.server, self.name)

    @property
    def declaration(self) -> FunctionDeclaration:
        schema = self.parameters or {"type": "object", "properties": {}}
        return FunctionDeclaration(self.function_name, self.description, schema)


class ToolResult(NamedTuple):
    """The whole result. The scheduler shortens what the model gets of it."""

    response: JsonObject  #: `functionResponse.response`: by convention {"output": …} or {"error": …}
    is_error: bool = False
    media: tuple[InlineData, ...] = ()
    usage: Usage = Usage()  #: tokens that the tool itself used, such as those of an agent
    notes: tuple[str, ...] = ()  #: names of what the record of the answer should count


def failed(message: str) -> ToolResult:
    """A result that tells the model what went wrong, so that it can try another way."""
    return ToolResult({"error": message}, is_error=True)


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of a tool, as the tool sees it. The arguments fit the tool's schema."""

    call_id: str
    arguments: JsonObject
    time_limit: float  #: seconds
    cancellation: Cancellation  #: cancelled at the time limit, and when the client leaves
    output: Callable[[str], None] = lambda _text: None  #: takes output while the tool runs


class Tool(ABC):
    description: ToolDescription

    @abstractmethod
    def invoke(self, invocation: Invocation) -> ToolResult:
        """Runs in a thread of its own. An exception becomes an error result that hides its details, so a
        tool returns `failed(…)` for all that the model should know. A tool that does not return at its time
        limit is left behind, and its result is dropped."""


class ToolSourceFailed(Exception):
    """The tools cannot be listed. The message is shown to the model and to the client."""


class ToolSource(ABC):
    """Something that has tools: a workspace, a server. A run lists its tools once, when it begins, so that a
    server that changes its tools in the middle of a run has no effect on it."""

    label: str

    @abstractmethod
    def tools(self, cancellation: Cancellation) -> Sequence[Tool]:
        """Raises ToolSourceFailed."""


class DuplicateTool(ValueError):
    """Two tools have one function name."""


class ToolRegistry:
    """The tools of one run, by function name."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        name = tool.description.function_name
        if name in self._tools:
            raise DuplicateTool(f"two tools have the name {name!r}")
        self._tools[name] = tool

    def find(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def declarations(self) -> tuple[FunctionDeclaration, ...]:
        return tuple(tool.description.declaration for tool in self)
