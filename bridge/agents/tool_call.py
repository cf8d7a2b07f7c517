"""One call of a tool on its way through the states of `call_states.py`."""

from __future__ import annotations

import time
from typing import Any

from bridge.agents.call_states import LEGAL, START, CallState, is_final
from bridge.agents.cancellation import Cancellation
from bridge.agents.large_results import shortened, size_of
from bridge.agents.tool import Tool, ToolResult, failed
from bridge.gemini.hosted_tools import HostedCall, HostedResult
from bridge.gemini.types import FunctionCall, FunctionResponse, JsonObject, Usage

LONGEST_OUTPUT = 20_000  #: characters of output that a tool sent while it ran; the last ones are kept


class IllegalCallState(RuntimeError):
    """A bug: a call would have gone from one state to another that may not follow."""


class ToolCall:
    """The thread that runs the batch changes the state; only `output` is called by the tool's own thread."""

    def __init__(self, call: FunctionCall, call_id: str, tool: Tool | None) -> None:
        self.call = call
        self.id = call_id
        self.tool = tool
        self.state = START
        self.states = [START]
        self.result: ToolResult | None = None  #: the whole result, once the state is final
        self.cancellation = Cancellation()
        self.deadline: float | None = None  #: by time.monotonic, while it executes
        self.seconds = 0.0  #: of its execution
        self._began = 0.0
        self._output = ""

    def advance(self, state: CallState) -> None:
        if state not in LEGAL[self.state]:
            raise IllegalCallState(f"{self.state.value} may not be followed by {state.value}")
        self.state = state
        self.states.append(state)

    @property
    def final(self) -> bool:
        return is_final(self.state)

    @property
    def read_only(self) -> bool:
        return self.tool is not None and self.tool.description.read_only

    # --- execution -----------------------------------------------------------------------------------

    def begin(self, time_limit: float) -> None:
        self.advance(CallState.EXECUTING)
        self._began = time.monotonic()
        self.deadline = self._began + time_limit

    def output(self, text: str) -> None:
        self._output = (self._output + text)[-LONGEST_OUTPUT:]

    @property
    def live_output(self) -> str:
        return self._output

    def finish(self, state: CallState, result: ToolResult) -> None:
        """Set the one result of the call."""
        self.advance(state)
        self.result = result
        if self._began:
            self.seconds = time.monotonic() - self._began
        self.cancellation.cancel()  # a tool that still works can stop

    def fail(self, message: str, state: CallState = CallState.ERROR) -> None:
        told = f"{message} Its output until then:\n{self._output}" if self._output else message
        self.finish(state, failed(told))

    @property
    def usage(self) -> Usage:
        """The tokens that the tool itself used."""
        return self.result.usage if self.result is not None else Usage()

    @property
    def notes(self) -> tuple[str, ...]:
        return self.result.notes if self.result is not None else ()

    @property
    def characters(self) -> int:
        """The size of the whole result."""
        return 0 if self.result is None else size_of(self.result.response)

    # --- Gemini's values -----------------------------------------------------------------------------

    @property
    def arguments(self) -> JsonObject:
        return self.call.args or {}

    def response(self) -> FunctionResponse:
        """What the model gets: a large result is shortened."""
        assert self.result is not None
        media = self.result.media
        return FunctionResponse(self.call.name, shortened(self.result.response), self.call.id, media)

    def hosted_call(self) -> HostedCall:
        return HostedCall(self.id, *self._names, self.arguments)

    def hosted_result(self) -> HostedResult:
        assert self.result is not None
        response: dict[str, Any] = dict(shortened(self.result.response))
        return HostedResult(self.id, *self._names, response, self.result.is_error)

    @property
    def _names(self) -> tuple[str, str]:
        if self.tool is None:
            return "", self.call.name
        return self.tool.description.server, self.tool.description.name
