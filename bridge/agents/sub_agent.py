"""An agent as a tool of another agent: `subagent__NAME`."""

from __future__ import annotations

from collections.abc import Callable

from bridge.agents.tool import Invocation, Tool, ToolDescription, ToolResult, failed
from bridge.agents.tool_loop import ToolLoop
from bridge.errors import BridgeError
from bridge.gemini.types import Chunk, Usage
from bridge.settings.agents import AgentRow

SERVER = "subagent"
MOST_DEPTH = 3  #: of agents that call agents
_PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "The task, with all that the agent must know"}},
    "required": ["query"],
}


class SubAgentTool(Tool):
    """Its calls run one after the other: the tools of an agent may write."""

    def __init__(self, row: AgentRow, begin: Callable[[str], ToolLoop]) -> None:
        self._begin = begin
        about = row.description or row.instruction
        self.description = ToolDescription(
            row.name, about, _PARAMETERS, unattended=True, time_limit=row.seconds + 60, server=SERVER
        )

    def invoke(self, invocation: Invocation) -> ToolResult:
        try:
            run = self._begin(str(invocation.arguments["query"]))
        except BridgeError as error:
            return failed(f"The agent could not begin: {error.message}")
        invocation.cancellation.on_cancel(run.close)
        answer = _Answer(invocation.output)
        try:
            for chunks in run:
                for chunk in chunks:
                    answer.add(chunk)
        except BridgeError as error:
            return failed(f"The agent failed: {error.message}")._replace(usage=answer.usage)
        finally:
            run.close()
        return ToolResult({"output": answer.text}, usage=answer.usage)


class _Answer:
    def __init__(self, output: Callable[[str], None]) -> None:
        self._output = output
        self._texts: list[str] = []
        self.usage = Usage()

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def add(self, chunk: Chunk) -> None:
        self.usage = chunk.usage or self.usage
        for candidate in chunk.candidates:
            for part in candidate.parts:
                if isinstance(part.data, str):
                    (self._output if part.thought else self._texts.append)(part.data)
