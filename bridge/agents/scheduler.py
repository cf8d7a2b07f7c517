"""Runs the calls of one turn: each is checked, cleared and executed, and has exactly one result at the end.

Neighbouring calls that only read run at the same time, in a few threads; all others run one after the other,
in the order of the turn. The reader of the batch gets control at every tick, so that it can send signs of
life, and cancels the batch by closing it. A tool that does not return at its time limit is left behind in its
thread; the number of such threads in the process is bounded.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, takewhile
from queue import Empty, SimpleQueue
from typing import NamedTuple

from bridge.agents.call_policy import NOBODY, Approver, CallPolicy, Decision, Verdict
from bridge.agents.call_states import CallState
from bridge.agents.json_schema import BrokenSchema, problems
from bridge.agents.tool import Invocation, Tool, ToolRegistry, ToolResult, failed
from bridge.agents.tool_call import ToolCall
from bridge.gemini.types import FunctionCall
from bridge.upstream.base import TICK

log = logging.getLogger(__name__)

MOST_PARALLEL = 4  #: calls of one turn
MOST_CALLS = 32  #: calls of one turn that are executed
MOST_THREADS = 64  #: threads of tools in this process, with those that were left behind

UNDECIDED = "Nobody approved the call in time."
NO_THREAD = "Too many tools are running. Try again later."

_threads = threading.BoundedSemaphore(MOST_THREADS)


class _Returned(NamedTuple):
    call: ToolCall
    result: ToolResult


#: Told of every change of the state of a call.
Watch = Callable[[ToolCall], None]


class CallBegan(NamedTuple):
    call: ToolCall


class CallEnded(NamedTuple):
    call: ToolCall


CallEvent = CallBegan | CallEnded


class Scheduler:
    """The calls of one run, turn by turn."""

    def __init__(
        self,
        registry: ToolRegistry,
        policy: CallPolicy,
        new_id: Callable[[str], str],
        watch: Watch = lambda _call: None,
        approver: Approver | None = None,
        tick: float = TICK,
    ) -> None:
        """Without an approver, calls that need approval are refused."""
        self._registry = registry
        self._policy = policy
        self._new_id = new_id
        self._watch = watch
        self._approver = approver
        self._tick = tick
        self._cancelled = threading.Event()
        self._calls: Sequence[ToolCall] = ()

    def calls(self, functions: Sequence[FunctionCall]) -> list[ToolCall]:
        """The calls of a turn, in the state in which they begin."""
        return [
            ToolCall(call, call.id or self._new_id("call_gb"), self._registry.find(call.name))
            for call in functions
        ]

    def cancel(self) -> None:
        """Cancel the calls that run now and all later ones. Any thread may call this."""
        self._cancelled.set()
        for call in self._calls:
            call.cancellation.cancel()

    def run(self, calls: Sequence[ToolCall]) -> Iterator[CallEvent | None]:
        """Yields the beginning and the end of each call, one call after the other in the order of the turn,
        and None at every tick. When the iterator ends or is closed, every call is final."""
        self._calls = calls
        try:
            events = _in_order(calls)
            for _ in self._steps(calls):
                yield from takewhile(bool, events)
                yield None
        finally:
            self._cancel(calls)
        yield from filter(None, events)

    def _cancel(self, calls: Sequence[ToolCall]) -> None:
        for call in calls:
            if not call.final:
                call.fail("The call was cancelled.", CallState.CANCELLED)
                self._watch(call)

    def _steps(self, calls: Sequence[ToolCall]) -> Iterator[None]:
        """Yields whenever something changed, and at every tick."""
        for position, call in enumerate(calls):
            self._clear(call, position)
        yield from self._wait_for_approval(calls)
        cleared = [call for call in calls if call.state is CallState.SCHEDULED]
        for read_only, group in groupby(cleared, key=lambda call: call.read_only):
            yield from self._execute(list(group), MOST_PARALLEL if read_only else 1)

    # --- before the execution ------------------------------------------------------------------------

    def _clear(self, call: ToolCall, position: int) -> None:
        self._watch(call)
        refusal = _invalid(call, position, self._registry)
        verdict = Verdict(Decision.DENY, refusal) if refusal else self._verdict(call)
        if verdict.decision is not Decision.ASK:
            self._decide(call, verdict)
        elif self._approver is None:
            self._decide(call, Verdict(Decision.DENY, NOBODY))
        else:
            call.advance(CallState.AWAITING_APPROVAL)
            self._watch(call)
            self._approver.ask(call)

    def _verdict(self, call: ToolCall) -> Verdict:
        assert call.tool is not None
        return self._policy.verdict(call.call, call.tool)

    def _decide(self, call: ToolCall, verdict: Verdict) -> None:
        if verdict.decision is Decision.ALLOW:
            call.advance(CallState.SCHEDULED)
        else:
            call.fail(verdict.reason)
        self._watch(call)

    def _wait_for_approval(self, calls: Sequence[ToolCall]) -> Iterator[None]:
        """No call of the turn begins before all of them are decided."""
        approver = self._approver
        waiting = [call for call in calls if call.state is CallState.AWAITING_APPROVAL]
        until = time.monotonic() + (approver.time_limit if approver else 0.0)
        while approver is not None and waiting and not self._cancelled.is_set():
            late = time.monotonic() >= until
            for call in waiting:
                verdict = approver.verdict(call) or (Verdict(Decision.DENY, UNDECIDED) if late else None)
                if verdict is not None:
                    self._decide(call, verdict)
            waiting = [call for call in waiting if call.state is CallState.AWAITING_APPROVAL]
            yield
            if waiting:
                self._cancelled.wait(self._tick)

    # --- the execution -------------------------------------------------------------------------------

    def _execute(self, calls: Sequence[ToolCall], most: int) -> Iterator[None]:
        waiting, running = list(calls), list[ToolCall]()
        returned: SimpleQueue[_Returned] = SimpleQueue()
        while (waiting or running) and not self._cancelled.is_set():
            while waiting and len(running) < most:
                call = waiting.pop(0)
                self._start(call, returned)
                running.append(call)
            self._receive(returned, running)
            running = [call for call in running if not call.final]
            yield

    def _start(self, call: ToolCall, returned: SimpleQueue[_Returned]) -> None:
        assert call.tool is not None
        threads = _threads
        if not threads.acquire(blocking=False):
            call.fail(NO_THREAD)
            self._watch(call)
            return
        call.begin(call.tool.description.time_limit)
        self._watch(call)
        work = (call.tool, _invocation(call), call, returned, threads)
        try:
            threading.Thread(target=_invoke, args=work, name="tool", daemon=True).start()
        except RuntimeError:  # the system has no thread left
            threads.release()
            returned.put(_Returned(call, failed(NO_THREAD)))

    def _receive(self, returned: SimpleQueue[_Returned], running: Sequence[ToolCall]) -> None:
        """Wait for results, at most until the next tick or deadline."""
        deadlines = [call.deadline for call in running if call.deadline is not None and not call.final]
        left = min((deadline - time.monotonic() for deadline in deadlines), default=0.0)
        try:
            self._accept(returned.get(timeout=max(0.0, min(left, self._tick))))
            while True:
                self._accept(returned.get_nowait())
        except Empty:
            pass
        now = time.monotonic()
        for call in running:
            if not call.final and call.deadline is not None and now >= call.deadline:
                assert call.tool is not None
                call.fail(f"The tool did not return within {call.tool.description.time_limit:g} seconds.")
                self._watch(call)

    def _accept(self, returned: _Returned) -> None:
        call, result = returned
        if not call.final:  # else it returned too late
            call.finish(CallState.ERROR if result.is_error else CallState.SUCCESS, result)
            self._watch(call)


def _in_order(calls: Sequence[ToolCall]) -> Iterator[CallEvent | None]:
    """The events of each call as soon as its state allows them; None if the next one must wait."""
    for call in calls:
        while not (call.final or call.state is CallState.EXECUTING):
            yield None
        yield CallBegan(call)
        while not call.final:
            yield None
        yield CallEnded(call)


def _invalid(call: ToolCall, position: int, registry: ToolRegistry) -> str:
    """Why the call cannot be executed; empty if it can."""
    if call.tool is None:
        known = ", ".join(each.description.function_name for each in registry)
        return f"There is no tool {call.call.name[:100]!r}. The tools are: {known or 'none'}."
    if position >= MOST_CALLS:
        return f"Only {MOST_CALLS} calls of one turn are executed."
    try:
        wrong = problems(call.arguments, call.tool.description.parameters)
    except BrokenSchema as error:
        return f"The schema of the tool is broken: {error}"
    return f"The arguments do not fit: {'; '.join(wrong)}." if wrong else ""


def _invocation(call: ToolCall) -> Invocation:
    assert call.tool is not None
    limit = call.tool.description.time_limit
    return Invocation(call.id, call.arguments, limit, call.cancellation, call.output)


def _invoke(
    tool: Tool,
    invocation: Invocation,
    call: ToolCall,
    returned: SimpleQueue[_Returned],
    threads: threading.BoundedSemaphore,
) -> None:
    try:
        result = tool.invoke(invocation)
    except Exception as error:  # its message may quote the arguments
        failure = {"tool": tool.description.function_name, "failure": type(error).__name__}
        log.error("tool failed", extra=failure)
        result = failed("The tool failed.")
    finally:
        threads.release()
    returned.put(_Returned(call, result))
