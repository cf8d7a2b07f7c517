"""Tools and models for tests of agents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bridge.agents.call_policy import CallPolicy
from bridge.agents.scheduler import CallBegan, CallEnded, CallEvent, Scheduler
from bridge.agents.tool import Invocation, Tool, ToolDescription, ToolRegistry, ToolResult
from bridge.agents.tool_call import ToolCall
from bridge.gemini.types import (
    MODEL,
    Candidate,
    Chunk,
    Content,
    FunctionCall,
    GenerateRequest,
    JsonObject,
    Part,
    Usage,
)
from bridge.settings.guards import GuardSettings
from bridge.upstream.base import AnswerStream

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class FunctionTool(Tool):
    """A tool that calls a function of the test."""

    def __init__(
        self,
        name: str,
        work: Callable[[Invocation], ToolResult],
        parameters: JsonObject | None = None,
        **more: Any,
    ) -> None:
        self.description = ToolDescription(name, f"The tool {name}", parameters or {}, **more)
        self._work = work

    def invoke(self, invocation: Invocation) -> ToolResult:
        return self._work(invocation)


def says(name: str, text: str = "done", **more: Any) -> FunctionTool:
    return FunctionTool(name, lambda _invocation: ToolResult({"output": text}), **more)


def hangs(name: str, **more: Any) -> tuple[FunctionTool, threading.Event]:
    """A tool that ignores its cancellation until the event is set."""
    released = threading.Event()

    def work(_invocation: Invocation) -> ToolResult:
        released.wait(30)
        return ToolResult({"output": "too late"})

    return FunctionTool(name, work, **more), released


def scheduler(*tools: Tool, guards: GuardSettings | None = None, **more: Any) -> Scheduler:
    ids = iter(range(1000))
    policy = CallPolicy(guards or GuardSettings())
    return Scheduler(ToolRegistry(tools), policy, lambda prefix: f"{prefix}{next(ids)}", tick=0.02, **more)


def run(running: Scheduler, *functions: FunctionCall) -> tuple[list[ToolCall], list[CallEvent]]:
    calls = running.calls(functions)
    events = [event for event in running.run(calls) if event is not None]
    return calls, events


def told(events: Sequence[CallEvent]) -> list[str]:
    assert all(isinstance(event, CallBegan | CallEnded) for event in events)
    return [
        f"{'began' if isinstance(event, CallBegan) else 'ended'} {event.call.call.name}" for event in events
    ]


# --- models ------------------------------------------------------------------------------------------


class ScriptedAnswer(AnswerStream):
    asks_model = True

    def __init__(self, request: GenerateRequest, chunks: Sequence[Chunk | BaseException]) -> None:
        super().__init__()
        self.request = request
        self.closed = False
        self._chunks = chunks

    def __iter__(self) -> Iterator[Sequence[Chunk]]:
        for chunk in self._chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            yield [chunk]

    def close(self) -> None:
        self.closed = True


class ScriptedModel:
    """Answers each round with the next script, and keeps the requests."""

    def __init__(self, *rounds: Sequence[Chunk | BaseException]) -> None:
        self._rounds = list(rounds)
        self.asked: list[GenerateRequest] = []
        self.answers: list[ScriptedAnswer] = []

    def __call__(self, request: GenerateRequest) -> AnswerStream:
        self.asked.append(request)
        script = self._rounds.pop(0) if len(self._rounds) > 1 else self._rounds[0]
        self.answers.append(ScriptedAnswer(request, script))
        return self.answers[-1]


def chunk(*parts: Part, finish: str | None = None, tokens: int = 0) -> Chunk:
    usage = Usage({"promptTokenCount": tokens, "totalTokenCount": tokens}) if tokens else None
    return Chunk((Candidate(Content(MODEL, parts), finish, 0),), usage)


def calling(*calls: FunctionCall, signature: str | None = None, tokens: int = 10) -> list[Chunk]:
    parts = [Part(call, signature=signature if not at else None) for at, call in enumerate(calls)]
    return [chunk(*parts, finish="STOP", tokens=tokens)]


def answering(text: str, tokens: int = 10) -> list[Chunk]:
    return [chunk(Part(text)), chunk(finish="STOP", tokens=tokens)]
