"""The scheduler: each call passes through legal states and has exactly one result, whatever happens."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import pytest
from agent_tools import PATH, FunctionTool, hangs, run, says, scheduler, told
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.agents import scheduler as scheduler_module
from bridge.agents.call_policy import Decision, Verdict
from bridge.agents.call_states import LEGAL, START, CallState, is_final
from bridge.agents.large_results import MOST_CHARACTERS
from bridge.agents.scheduler import MOST_CALLS, MOST_PARALLEL
from bridge.agents.tool import Invocation, ToolResult
from bridge.agents.tool_call import IllegalCallState, ToolCall
from bridge.gemini.types import FunctionCall
from bridge.settings.guards import GuardSettings, PolicyRule

# --- the table ----------------------------------------------------------------------------------------


def test_every_state_is_reached_and_leads_to_an_end() -> None:
    reached, waiting = set(), [START]
    while waiting:
        state = waiting.pop()
        reached.add(state)
        waiting += LEGAL[state] - reached
    assert reached == set(CallState)
    assert {state for state in CallState if is_final(state)} == {
        CallState.SUCCESS,
        CallState.ERROR,
        CallState.CANCELLED,
    }


def test_an_illegal_state_is_a_bug() -> None:
    call = ToolCall(FunctionCall("read"), "1", None)
    with pytest.raises(IllegalCallState):
        call.advance(CallState.SUCCESS)


# --- one call -----------------------------------------------------------------------------------------


def test_a_call_is_executed() -> None:
    calls, events = run(scheduler(says("read", "text")), FunctionCall("read", {}, "7"))
    assert [state.value for state in calls[0].states] == ["validating", "scheduled", "executing", "success"]
    assert told(events) == ["began read", "ended read"]
    response = calls[0].response()
    assert (response.name, response.id, response.response) == ("read", "7", {"output": "text"})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (FunctionCall("wite", {}), "There is no tool 'wite'. The tools are: read."),
        (FunctionCall("read", {}), "The arguments do not fit: the value lacks 'path'."),
        (FunctionCall("read", {"path": 1}), "The arguments do not fit: path must be string."),
        (FunctionCall("read", None), "The arguments do not fit: the value lacks 'path'."),
    ],
)
def test_a_wrong_call_is_an_error_that_says_what_is_wrong(call: FunctionCall, message: str) -> None:
    calls, events = run(scheduler(says("read", parameters=PATH)), call)
    assert calls[0].states == [CallState.VALIDATING, CallState.ERROR]
    assert calls[0].response().response == {"error": message}
    assert len(events) == 2


def test_an_exception_of_a_tool_hides_its_details(caplog: pytest.LogCaptureFixture) -> None:
    def work(_invocation: Invocation) -> ToolResult:
        raise ValueError("secret")

    calls, _ = run(scheduler(FunctionTool("read", work)), FunctionCall("read"))
    assert calls[0].state is CallState.ERROR
    assert calls[0].response().response == {"error": "The tool failed."}
    assert "tool failed" in caplog.text
    assert "secret" not in caplog.text


def test_a_broken_schema_is_an_error_of_the_call() -> None:
    tool = says("read", parameters={"$ref": "#/$defs/missing"})
    calls, _ = run(scheduler(tool), FunctionCall("read", {}))
    assert calls[0].response().response == {
        "error": "The schema of the tool is broken: $ref '#/$defs/missing' names nothing"
    }


def test_a_tool_that_hangs_is_left_behind_and_its_output_is_kept() -> None:
    released = threading.Event()
    cancelled = []

    def work(invocation: Invocation) -> ToolResult:
        invocation.cancellation.on_cancel(lambda: cancelled.append(True))
        invocation.output("half ")
        invocation.output("way")
        released.wait(30)
        return ToolResult({"output": "too late"})

    calls, _ = run(scheduler(FunctionTool("slow", work, time_limit=0.1)), FunctionCall("slow"))
    released.set()
    assert calls[0].state is CallState.ERROR
    assert calls[0].response().response == {
        "error": "The tool did not return within 0.1 seconds. Its output until then:\nhalf way"
    }
    assert cancelled == [True]


def test_a_large_result_is_shortened_for_the_model_and_kept_whole() -> None:
    text = "\n".join(f"line {number}" for number in range(20_000))
    calls, _ = run(scheduler(says("read", text)), FunctionCall("read"))
    short = calls[0].response().response["output"]
    assert len(short) <= MOST_CHARACTERS
    assert short.startswith("line 0\n")
    assert short.endswith("line 19999")
    assert "left out" in short
    assert calls[0].result is not None
    assert calls[0].result.response == {"output": text}


def test_calls_beyond_the_limit_are_refused() -> None:
    calls, _ = run(scheduler(says("read", read_only=True)), *[FunctionCall("read")] * (MOST_CALLS + 1))
    assert [call.state for call in calls[:-1]] == [CallState.SUCCESS] * MOST_CALLS
    assert calls[-1].state is CallState.ERROR


def test_without_a_free_thread_a_call_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "_threads", threading.BoundedSemaphore(1))
    slow, released = hangs("slow", read_only=True, time_limit=0.1)
    calls, _ = run(scheduler(slow), FunctionCall("slow"), FunctionCall("slow"))
    released.set()
    errors = [str(call.response().response["error"]) for call in calls]
    assert errors[0].startswith("The tool did not return")
    assert errors[1] == "Too many tools are running. Try again later."


# --- order --------------------------------------------------------------------------------------------


class Overlaps:
    """Measures how many tools run at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running: list[str] = []
        self.most: dict[str, int] = {}
        self.order: list[str] = []

    def tool(self, name: str, **more: bool) -> FunctionTool:
        def work(_invocation: Invocation) -> ToolResult:
            with self._lock:
                self.running.append(name)
                self.order.append(name)
                self.most[name] = max(self.most.get(name, 0), len(self.running))
            time.sleep(0.03)
            with self._lock:
                self.running.remove(name)
            return ToolResult({"output": name})

        return FunctionTool(name, work, **more)


def test_reading_calls_run_together_and_writing_calls_alone() -> None:
    overlaps = Overlaps()
    tools = (overlaps.tool("read", read_only=True), overlaps.tool("write"))
    names = [*["read"] * 6, "write", "write", *["read"] * 2]
    calls, events = run(scheduler(*tools), *(FunctionCall(name) for name in names))
    assert 1 < overlaps.most["read"] <= MOST_PARALLEL
    assert overlaps.most["write"] == 1
    assert overlaps.order == names
    assert told(events) == [f"{what} {name}" for name in names for what in ("began", "ended")]
    assert all(call.state is CallState.SUCCESS for call in calls)


# --- the policy ---------------------------------------------------------------------------------------


def guards(*rules: PolicyRule) -> GuardSettings:
    return GuardSettings(rules=rules)


@pytest.mark.parametrize(
    ("rules", "unattended", "state"),
    [
        ((), True, CallState.SUCCESS),
        ((), False, CallState.ERROR),  # it asks, and nobody can answer
        ((PolicyRule("read", "deny"),), True, CallState.ERROR),
        ((PolicyRule("read", "allow"),), False, CallState.SUCCESS),
        ((PolicyRule("read", "ask"),), True, CallState.ERROR),
        ((PolicyRule("read", "deny", args_pattern="secret"),), True, CallState.SUCCESS),
    ],
)
def test_the_policy_decides(rules: tuple[PolicyRule, ...], unattended: bool, state: CallState) -> None:
    calls, _ = run(
        scheduler(says("read", unattended=unattended), guards=guards(*rules)), FunctionCall("read")
    )
    assert calls[0].state is state


class Person:
    """Decides after some ticks."""

    time_limit = 0.3

    def __init__(self, verdict: Verdict | None) -> None:
        self._verdict = verdict
        self.asked: list[str] = []
        self.looks = 0

    def ask(self, call: ToolCall) -> None:
        self.asked.append(call.call.name)

    def verdict(self, _call: ToolCall) -> Verdict | None:
        self.looks += 1
        return self._verdict if self.looks > 2 else None


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (Verdict(Decision.ALLOW), CallState.SUCCESS),
        (Verdict(Decision.DENY, "No."), CallState.ERROR),
        (None, CallState.ERROR),
    ],
)
def test_a_person_decides_and_the_whole_turn_waits(verdict: Verdict | None, state: CallState) -> None:
    person = Person(verdict)
    running = scheduler(says("write", unattended=False), says("read", read_only=True), approver=person)
    calls, _ = run(running, FunctionCall("read"), FunctionCall("write"))
    assert person.asked == ["write"]
    assert calls[1].states[:2] == [CallState.VALIDATING, CallState.AWAITING_APPROVAL]
    assert [call.state for call in calls] == [CallState.SUCCESS, state]


# --- whatever happens ---------------------------------------------------------------------------------


def test_a_cancelled_run_ends_at_once() -> None:
    slow, released = hangs("slow", time_limit=30.0)
    running = scheduler(slow, says("read"))
    calls = running.calls([FunctionCall("slow"), FunctionCall("read")])
    threading.Timer(0.1, running.cancel).start()
    began = time.monotonic()
    events = [event for event in running.run(calls) if event is not None]
    released.set()
    assert time.monotonic() - began < 5
    assert [call.state for call in calls] == [CallState.CANCELLED] * 2
    assert told(events) == ["began slow", "ended slow", "began read", "ended read"]


BEHAVIOURS = st.sampled_from(["ok", "error", "raise", "hang", "missing", "wrong", "denied", "asked"])


@settings(max_examples=60)
@given(
    st.lists(st.tuples(BEHAVIOURS, st.booleans()), max_size=7),
    st.one_of(st.none(), st.integers(0, 12)),
    st.booleans(),
)
def test_every_call_has_one_result_in_every_interleaving(
    behaviours: list[tuple[str, bool]], stop_after: int | None, closes: bool
) -> None:
    """The run is cancelled, or its iterator is closed, after a random number of steps."""
    released = threading.Event()

    def work(invocation: Invocation) -> ToolResult:
        match invocation.arguments["do"]:
            case "raise":
                raise RuntimeError
            case "error":
                return ToolResult({"error": "no"}, is_error=True)
            case "hang":
                released.wait(10)
        return ToolResult({"output": "done"})

    schema = {"type": "object", "properties": {"do": {"type": "string"}}, "required": ["do"]}
    tools = [
        FunctionTool(name, work, schema, read_only=name == "read", time_limit=0.05)
        for name in ("read", "write")
    ]
    rule = PolicyRule("*", "deny", args_pattern="denied"), PolicyRule("*", "ask", args_pattern="asked")
    changes: list[tuple[str, CallState]] = []
    running = scheduler(
        *tools, guards=guards(*rule), watch=lambda call: changes.append((call.id, call.state))
    )
    functions = [
        FunctionCall(
            "nothing" if do == "missing" else "read" if reads else "write",
            {} if do == "wrong" else {"do": do},
        )
        for do, reads in behaviours
    ]
    calls = running.calls(functions)
    iterator = running.run(calls)
    for step, _ in enumerate(iterator):
        if stop_after is not None and step >= stop_after:
            if closes:
                iterator.close()
                break
            running.cancel()
    released.set()
    for call in calls:
        assert call.final
        assert call.result is not None
        assert all(after in LEGAL[before] for before, after in pairwise(call.states))
        seen = [state for each, state in changes if each == call.id]
        assert seen == call.states[: len(seen)] or closes
    assert len({call.id for call in calls}) == len(calls)
