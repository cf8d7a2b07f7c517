"""Runs a model and its tools in rounds, as one answer.

Each round asks the model and executes the calls of the bridge's own tools that it makes; then the model's
whole turn and the results go back to it. The client sees one stream: the model's thoughts and text, each call
with its result as parts of `hosted_tools.py`, and one finish reason at the end. A call of the client's own
tools ends the answer after the round, because only the client can execute it. The usage is the sum of all
rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from bridge.agents.end_reason import EndReason
from bridge.agents.model_round import ModelRound
from bridge.agents.run_limits import LimitCheck, RunLimits
from bridge.agents.scheduler import CallBegan, Scheduler
from bridge.agents.task_output import NAME, REMINDER, TaskOutput
from bridge.agents.tool_call import ToolCall
from bridge.errors import AgentFailed
from bridge.gemini.finish import FinishReason
from bridge.gemini.hosted_tools import HostedCall, HostedResult, hosted_part
from bridge.gemini.types import (
    MODEL,
    USER,
    Candidate,
    Chunk,
    Content,
    FunctionCall,
    GenerateRequest,
    JsonObject,
    Part,
    Usage,
)
from bridge.upstream.base import AnswerStream

#: Sends one round to the model. Raises if the model cannot take the request.
AskModel = Callable[[GenerateRequest], AnswerStream]
Batches = Iterator[Sequence[Chunk]]

FINISH_NOW = "No more tools can be called. Answer now with what you know."
ALONE = f"{NAME} must be called alone; this call was not executed."


class RunObserver:
    """Is told what happens in a run. This one ignores it."""

    def run_began(self, request: GenerateRequest) -> None:
        """The model took the first request."""

    def round_ended(self, turns: Sequence[Content], calls: Sequence[ToolCall], usage: Usage) -> None:
        """The turns that the round added to the conversation."""

    def run_ended(self, reason: EndReason, usage: Usage) -> None:
        """Called once."""


class ToolLoop(AnswerStream):
    asks_model = True

    def __init__(
        self,
        request: GenerateRequest,
        ask: AskModel,
        scheduler: Scheduler,
        limits: RunLimits,
        task: TaskOutput | None = None,
        observer: RunObserver | None = None,
        *,
        is_hosted: Callable[[FunctionCall], bool] = lambda _call: True,
    ) -> None:
        """The request declares the tools. `is_hosted`: whether the bridge executes this call."""
        super().__init__()
        self._conversation = request
        self._ask = ask
        self._scheduler = scheduler
        self._check = LimitCheck(limits)
        self._task = task
        self._observer = observer or RunObserver()
        self._is_hosted = is_hosted
        self._rounds = 0
        self._spent = Usage()
        self._last_turn: EndReason | None = None  #: why the running round is the last one
        self._ended = False
        self._tool_seconds = 0.0
        self._waited = 0.0
        self._text_sent = False
        self._stream = ask(request)
        self._left = False  #: the notes of the stream were taken
        self._observer.run_began(request)

    # --- what an exchange reads ------------------------------------------------------------------------

    @property
    def request(self) -> GenerateRequest | None:  # type: ignore[override]
        return self._stream.request

    @property
    def model_version(self) -> str | None:  # type: ignore[override]
        return self._stream.model_version

    @property
    def losses(self) -> Sequence[str]:  # type: ignore[override]
        return self._stream.losses

    @property
    def waited(self) -> float:  # type: ignore[override]
        """Waiting for tools is no overhead of the bridge either."""
        return self._waited + self._stream.waited + self._tool_seconds

    def close(self) -> None:
        self._scheduler.cancel()
        self._leave_stream()
        self._end(EndReason.ABORTED)

    def __iter__(self) -> Batches:
        try:
            yield from self._run()
        except Exception:
            self._end(EndReason.ERROR)
            raise

    # --- rounds ----------------------------------------------------------------------------------------

    def _run(self) -> Batches:
        while not self._ended:
            gap = "\n\n" if self._text_sent else ""
            hides_text = self._task is not None
            answer = ModelRound(self._is_hosted, self._spent, gap=gap, text_as_thought=hides_text)
            yield from self._read(answer)
            parts = answer.hosted_calls()
            calls = self._scheduler.calls(
                [call for part in parts if isinstance(call := part.data, FunctionCall)]
            )
            last = self._last_chunk(answer, calls)
            if last is None or answer.calls_client:
                yield from self._execute(calls, parts)
            if last is not None:
                yield [last]
                return
            self._begin_next_round(answer, calls)

    def _read(self, answer: ModelRound) -> Batches:
        for chunks in self._stream:
            if self._check.last_turn_is_over:
                raise self._failure(EndReason.TIMEOUT)
            yield [answer.feed(chunk) for chunk in chunks]
        answer.finish()
        self._rounds += 1
        self._spent = answer.usage
        self._text_sent = self._text_sent or answer.text_sent

    def _begin_next_round(self, answer: ModelRound, calls: Sequence[ToolCall]) -> None:
        results = tuple(Part(call.response()) for call in calls)
        for call in calls:
            self._spent = _sum(self._spent, call.usage)
        self._last_turn = self._check.reached(self._rounds, self._spent.total)
        if not calls:
            self._last_turn = self._last_turn or EndReason.ERROR_NO_COMPLETE_TASK_CALL
        self._observer.round_ended(
            (answer.content, Content(USER, results)) if results else (answer.content,), calls, self._spent
        )
        advice = (Part(REMINDER if self._task else FINISH_NOW),) if self._last_turn else ()
        added = (answer.content, Content(USER, (*results, *advice)))
        self._conversation = replace(self._conversation, contents=(*self._conversation.contents, *added))
        self._ask_again()

    def _ask_again(self) -> None:
        self._leave_stream()
        self._waited += self._stream.waited
        request = self._conversation
        if self._last_turn is not None:
            request = replace(request, tool_config=self._last_config())
        self._stream = self._ask(request)
        self._left = False

    def _leave_stream(self) -> None:
        self._stream.close()
        if not self._left:
            self._left = True
            self.notes.update(self._stream.notes)
            self.discarded += self._stream.discarded
            self.replaced_errors += self._stream.replaced_errors
            self.upstream = self._stream.upstream

    def _last_config(self) -> JsonObject:
        """The model must finish now."""
        if self._task is None:
            return {"functionCallingConfig": {"mode": "NONE"}}
        return {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [NAME]}}

    # --- calls -----------------------------------------------------------------------------------------

    def _execute(self, calls: Sequence[ToolCall], parts: Sequence[Part]) -> Batches:
        """An empty batch at every tick, for the heartbeats of the client."""
        if self._task is not None and any(call.call.name == NAME for call in calls):
            return self._refuse(calls)
        return self._scheduled(
            calls, {call.id: part.signature for call, part in zip(calls, parts, strict=True)}
        )

    def _scheduled(self, calls: Sequence[ToolCall], signatures: dict[str, str | None]) -> Batches:
        began = time.monotonic()
        for event in self._scheduler.run(calls):
            if event is None:
                if self._check.time_is_up:
                    self._scheduler.cancel()
                yield ()
            elif isinstance(event, CallBegan):
                yield [_shown(event.call.hosted_call(), signatures[event.call.id])]
            else:
                self.notes.update(event.call.notes)
                yield [_shown(event.call.hosted_result())]
        self._tool_seconds += time.monotonic() - began

    def _refuse(self, calls: Sequence[ToolCall]) -> Batches:
        """The result did not fit, so the agent tries again. Other calls of the turn are not executed."""
        assert self._task is not None
        for call in calls:
            call.fail(self._task.problem(call.call) or ALONE if call.call.name == NAME else ALONE)
            yield [_shown(call.hosted_call()), _shown(call.hosted_result())]

    # --- the end ---------------------------------------------------------------------------------------

    def _last_chunk(self, answer: ModelRound, calls: Sequence[ToolCall]) -> Chunk | None:
        """The end of the answer; None if another round follows. Raises AgentFailed if the run failed."""
        if self._task is not None:
            return self._task_chunk(self._task, answer, calls)
        if calls and not answer.calls_client and self._last_turn is None:
            return None
        self._end(self._last_turn or EndReason.GOAL)
        return self._ending(answer.finish_reason)

    def _task_chunk(self, task: TaskOutput, answer: ModelRound, calls: Sequence[ToolCall]) -> Chunk | None:
        done = [call for call in calls if call.call.name == NAME]
        if len(calls) == 1 and done and not task.problem(done[0].call):
            self._end(EndReason.GOAL)
            return self._ending(FinishReason.STOP, Part(task.text(done[0].call)))
        if self._last_turn is not None:
            raise self._failure(self._last_turn)
        if not calls and not answer.complete:
            raise self._failure(EndReason.ERROR)
        return None

    def _ending(self, reason: str | None, *parts: Part) -> Chunk:
        self._leave_stream()
        content = Content(MODEL, parts) if parts else None
        return Chunk((Candidate(content, reason, 0),), self._spent)

    def _failure(self, reason: EndReason) -> AgentFailed:
        self._end(reason)
        return AgentFailed(f"The agent ended without a result: {reason}.")

    def _end(self, reason: EndReason) -> None:
        if not self._ended:
            self._ended = True
            self.notes[f"agent.end.{reason}"] += 1
            self.notes["agent.rounds"] += self._rounds
            self._observer.run_ended(reason, self._spent)


def _sum(usage: Usage, other: Usage) -> Usage:
    return usage + other if other.raw else usage


def _shown(hosted: HostedCall | HostedResult, signature: str | None = None) -> Chunk:
    return Chunk((Candidate(Content(MODEL, (hosted_part(hosted, signature),)), index=0),))
