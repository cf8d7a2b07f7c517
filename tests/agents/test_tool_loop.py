"""Runs of a model with its tools: rounds, limits, results by schema, and how each of them ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent_tools import ScriptedModel, answering, calling, chunk, hangs, says, scheduler

from bridge.agents import run_limits
from bridge.agents.end_reason import EndReason
from bridge.agents.run_limits import RunLimits
from bridge.agents.task_output import NAME, TaskOutput
from bridge.agents.tool import Tool
from bridge.agents.tool_call import ToolCall
from bridge.agents.tool_loop import RunObserver, ToolLoop
from bridge.errors import AgentFailed, UpstreamOverloaded, UpstreamTruncated
from bridge.gemini.hosted_tools import HostedCall, HostedResult, hosted_in
from bridge.gemini.types import (
    MODEL,
    USER,
    Chunk,
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    Part,
    Usage,
)

ASKED = GenerateRequest("m", (Content(USER, (Part("?"),)),))
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
READ = FunctionCall("read", {}, "c1")


@dataclass
class Seen(RunObserver):
    ends: list[EndReason] = field(default_factory=list)
    rounds: int = 0

    def round_ended(self, turns: Sequence[Content], calls: Sequence[ToolCall], usage: Usage) -> None:
        self.rounds += 1

    def run_ended(self, reason: EndReason, usage: Usage) -> None:
        self.ends.append(reason)


class Run:
    def __init__(self, model: ScriptedModel, *tools: Tool, **more: Any) -> None:
        self.model = model
        self.seen = Seen()
        limits = more.pop("limits", RunLimits())
        self.loop = ToolLoop(ASKED, model, scheduler(*tools), limits, observer=self.seen, **more)
        self.chunks: list[Chunk] = []

    def read(self) -> Run:
        self.chunks = [each for batch in self.loop for each in batch]
        return self

    @property
    def parts(self) -> list[Part]:
        return [part for each in self.chunks for candidate in each.candidates for part in candidate.parts]

    @property
    def text(self) -> str:
        return "".join(
            str(part.data) for part in self.parts if isinstance(part.data, str) and not part.thought
        )

    @property
    def thoughts(self) -> str:
        return "".join(str(part.data) for part in self.parts if part.thought)

    @property
    def finish(self) -> list[str]:
        reasons = [each.finish_reason for chunk in self.chunks for each in chunk.candidates]
        return [reason for reason in reasons if reason]


def test_a_call_is_executed_and_its_result_returns_with_the_whole_turn_of_the_model() -> None:
    first = [
        chunk(Part("Let me look.")),
        chunk(Part(READ, signature="signed"), finish="STOP", tokens=10),
    ]
    run = Run(ScriptedModel(first, answering("It says text.", 30)), says("read", "text")).read()
    assert run.text == "Let me look.\n\nIt says text."
    assert [hosted_in(part.data) for part in run.parts if hosted_in(part.data)] == [
        HostedCall("c1", "", "read", {}),
        HostedResult("c1", "", "read", {"output": "text"}),
    ]
    assert run.finish == ["STOP"]
    assert run.chunks[-1].usage == Usage({"promptTokenCount": 40, "totalTokenCount": 40})
    assert run.model.asked[1].contents == (
        *ASKED.contents,
        Content(MODEL, (Part("Let me look."), Part(READ, signature="signed"))),
        Content(USER, (Part(FunctionResponse("read", {"output": "text"}, "c1")),)),
    )
    assert run.seen.ends == [EndReason.GOAL]
    assert run.seen.rounds == 1
    assert all(answer.closed for answer in run.model.answers)


def test_no_call_of_the_bridges_tools_reaches_the_client() -> None:
    run = Run(ScriptedModel(calling(READ), answering("Done.")), says("read")).read()
    assert not [part for part in run.parts if isinstance(part.data, FunctionCall)]


def reads(call: FunctionCall) -> bool:
    return call.name == "read"


def test_a_call_of_a_tool_of_the_client_ends_the_answer_after_the_others_were_executed() -> None:
    own = FunctionCall("shell", {}, "c2")
    run = Run(
        ScriptedModel(calling(READ, own)), says("read"), is_hosted=lambda call: call.name == "read"
    ).read()
    assert [part.data for part in run.parts if isinstance(part.data, FunctionCall)] == [own]
    assert isinstance(hosted_in(run.parts[-1].data), HostedResult)
    assert run.finish == ["STOP"]
    assert len(run.model.asked) == 1


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (RunLimits(rounds=2), EndReason.MAX_TURNS),
        (RunLimits(tokens=15), EndReason.MAX_TOKENS),
    ],
)
def test_at_a_limit_the_model_answers_in_one_last_turn(limits: RunLimits, reason: EndReason) -> None:
    run = Run(ScriptedModel(calling(READ), calling(READ), answering("Enough.")), says("read"), limits=limits)
    assert run.read().text == "Enough."
    assert run.seen.ends == [reason]
    last = run.model.asked[-1]
    assert last.tool_config == {"functionCallingConfig": {"mode": "NONE"}}
    assert str(last.contents[-1].parts[-1].data).startswith("No more tools")


def test_a_model_that_ignores_the_last_turn_ends_too() -> None:
    run = Run(ScriptedModel(calling(READ)), says("read"), limits=RunLimits(rounds=2)).read()
    assert len(run.model.asked) == 3
    assert run.seen.ends == [EndReason.MAX_TURNS]
    assert run.finish == ["STOP"]


def test_time_that_is_up_cancels_the_tools_and_leaves_one_last_turn() -> None:
    slow, released = hangs("read")
    run = Run(ScriptedModel(calling(READ), answering("Late.")), slow, limits=RunLimits(seconds=0.2)).read()
    released.set()
    assert run.text == "Late."
    assert run.seen.ends == [EndReason.TIMEOUT]
    assert [part.data.response for part in run.model.asked[1].contents[-1].parts[:1]] == [  # type: ignore[union-attr]
        {"error": "The call was cancelled."}
    ]


def test_a_last_turn_that_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_limits, "LAST_TURN_SECONDS", 0.0)
    run = Run(ScriptedModel(answering("Never read.")), limits=RunLimits(seconds=0.0))
    with pytest.raises(AgentFailed, match="TIMEOUT"):
        run.read()
    assert run.seen.ends == [EndReason.TIMEOUT]


def test_a_failure_of_the_upstream_ends_the_run() -> None:
    failure = UpstreamOverloaded("Busy")
    run = Run(ScriptedModel(calling(READ), [failure]), says("read"))
    with pytest.raises(UpstreamOverloaded):
        run.read()
    assert run.seen.ends == [EndReason.ERROR]


def test_a_round_without_a_finish_reason_fails() -> None:
    run = Run(ScriptedModel([chunk(Part("half"))]))
    with pytest.raises(UpstreamTruncated):
        run.read()


def test_a_client_that_leaves_cancels_the_tool_and_the_model() -> None:
    slow, released = hangs("read")
    run = Run(ScriptedModel(calling(READ)), slow)
    batches = iter(run.loop)
    while not [part for part in run.parts if hosted_in(part.data)]:
        run.chunks += next(batches)
    run.loop.close()
    del batches
    released.set()
    assert run.seen.ends == [EndReason.ABORTED]
    assert run.model.answers[-1].closed


# --- results by schema --------------------------------------------------------------------------------


def completing(output: Any, call_id: str = "t1") -> list[Chunk]:
    return calling(FunctionCall(NAME, {"output": output}, call_id))


def test_the_result_is_the_answer_and_what_the_model_says_is_a_thought() -> None:
    talk = [chunk(Part("I think.")), *completing({"name": "x"})]
    run = Run(ScriptedModel(talk), task=TaskOutput(SCHEMA)).read()
    assert (run.text, run.thoughts) == ('{"name":"x"}', "I think.")
    assert run.seen.ends == [EndReason.GOAL]


def test_a_result_that_does_not_fit_goes_back_as_an_error() -> None:
    model = ScriptedModel(completing({"nam": "x"}), completing({"name": "x"}))
    run = Run(model, task=TaskOutput(SCHEMA)).read()
    returned = model.asked[1].contents[-1].parts[0].data
    assert isinstance(returned, FunctionResponse)
    assert returned.response == {
        "error": "The result does not fit its schema: the value lacks 'name'. Try again."
    }
    assert run.text == '{"name":"x"}'


def test_a_result_beside_other_calls_is_refused_and_nothing_is_executed() -> None:
    both = calling(READ, FunctionCall(NAME, {"output": {"name": "x"}}, "t1"))
    ran: list[str] = []
    tool = says("read")
    tool._work = lambda _invocation: ran.append("read")  # type: ignore[assignment,func-returns-value,return-value]
    run = Run(ScriptedModel(both, completing({"name": "x"})), tool, task=TaskOutput(SCHEMA)).read()
    assert run.text == '{"name":"x"}'
    assert ran == []
    assert len(run.model.asked[1].contents[-1].parts) == 2


def test_a_result_that_never_fits_fails_after_the_last_turn() -> None:
    run = Run(ScriptedModel(completing({})), task=TaskOutput(SCHEMA), limits=RunLimits(rounds=3))
    with pytest.raises(AgentFailed, match="MAX_TURNS"):
        run.read()
    assert len(run.model.asked) == 4
    assert run.model.asked[-1].tool_config == {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [NAME]}
    }


def test_a_model_that_does_not_hand_in_its_result_is_reminded_once() -> None:
    run = Run(ScriptedModel(answering("It is x."), completing({"name": "x"})), task=TaskOutput(SCHEMA)).read()
    assert run.text == '{"name":"x"}'
    assert run.seen.ends == [EndReason.GOAL]

    run = Run(ScriptedModel(answering("It is x.")), task=TaskOutput(SCHEMA))
    with pytest.raises(AgentFailed, match="ERROR_NO_COMPLETE_TASK_CALL"):
        run.read()
    assert run.seen.ends == [EndReason.ERROR_NO_COMPLETE_TASK_CALL]
    assert len(run.model.asked) == 2


def test_definitions_of_the_schema_stay_where_references_look_for_them() -> None:
    task = TaskOutput({"$ref": "#/$defs/item", "$defs": {"item": SCHEMA}})
    assert task.declaration.schema is not None
    assert task.declaration.schema["$defs"] == {"item": SCHEMA}
    assert task.problem(FunctionCall(NAME, {"output": {}})) != ""
    assert task.problem(FunctionCall(NAME, {"output": {"name": "x"}})) == ""
