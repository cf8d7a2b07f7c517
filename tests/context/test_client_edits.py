"""The edits that clients ask for: what they clear, when, and that the rest of the prompt stays the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from gemini_rules import broken_rules, calls, responses
from hypothesis import given
from hypothesis import strategies as st

from bridge.context.base import ClientEdit
from bridge.context.clear_thinking import ClearThinking
from bridge.context.clear_tool_uses import ClearToolUses
from bridge.context.estimate import request_tokens
from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    Part,
)
from bridge.settings.context import ContextSettings
from tests.context.histories import conversations, requests_of, text

SETTINGS = ContextSettings()


def clearing(**options: Any) -> ClientEdit:
    return ClearToolUses.wished(SETTINGS, options)


def thinking(**options: Any) -> ClientEdit:
    return ClearThinking.wished(SETTINGS, options)


OPTIONS = st.fixed_dictionaries(
    {"keep": st.integers(0, 4)},
    optional={
        "clear_at_least": st.sampled_from((0, 100, 2000)),
        "clear_tool_inputs": st.sampled_from((True, False, frozenset({"run"}))),
        "exclude_tools": st.sampled_from((frozenset(), frozenset({"run"}), frozenset({"other"}))),
    },
)
TRIGGERS = st.one_of(
    st.sampled_from((1, 300, 1000, 4000)).map(lambda value: {"input_tokens": value}),
    st.integers(1, 6).map(lambda value: {"tool_uses": value}),
)
EDITS = st.one_of(
    st.builds(lambda trigger, options: clearing(**trigger, **options), TRIGGERS, OPTIONS),
    st.integers(1, 3).map(lambda keep: thinking(keep=keep)),
)


def edited(edit: ClientEdit, contents: Sequence[Content]) -> tuple[Content, ...]:
    return edit.apply(GenerateRequest("m", tuple(contents))).request.contents


# --- any history -------------------------------------------------------------------------------------


@given(conversations(), EDITS)
def test_the_result_is_legal_and_keeps_every_call_and_result(contents, edit):
    after = edited(edit, contents)
    assert broken_rules(after, prefill=False) == []
    for before, turn in zip(contents, after, strict=True):
        assert [(each.name, each.id) for each in calls(turn)] == [(c.name, c.id) for c in calls(before)]
        assert [each.id for each in responses(turn)] == [each.id for each in responses(before)]
        signed = {
            part.data.id: part.signature for part in before.parts if isinstance(part.data, FunctionCall)
        }
        kept = {part.data.id: part.signature for part in turn.parts if isinstance(part.data, FunctionCall)}
        assert signed == kept


@given(conversations(), EDITS)
def test_a_second_application_changes_nothing(contents, edit):
    once = edited(edit, contents)
    assert edited(edit, once) == once


@given(conversations(), TRIGGERS, OPTIONS)
def test_a_request_begins_as_the_one_before_unless_more_was_cleared(contents, trigger, options):
    edit = clearing(**trigger, **options)
    for before, after in pairwise(requests_of(contents)):
        earlier = edit.apply(GenerateRequest("m", before))
        later = edit.apply(GenerateRequest("m", after))
        assert later.changes >= earlier.changes
        if later.changes == earlier.changes:
            turns = earlier.request.contents
            assert later.request.contents[: len(turns)] == turns


@given(conversations(), st.integers(1, 3))
def test_a_request_begins_as_the_one_before_while_no_new_answer_has_thoughts(contents, keep):
    edit = thinking(keep=keep)
    for before, after in pairwise(requests_of(contents)):
        earlier = edit.apply(GenerateRequest("m", before))
        later = edit.apply(GenerateRequest("m", after))
        if later.changes == earlier.changes:
            turns = earlier.request.contents
            assert later.request.contents[: len(turns)] == turns


@given(conversations(), st.sampled_from((500, 2000)))
def test_below_the_trigger_the_request_is_the_same_object(contents, trigger):
    asked = GenerateRequest("m", contents)
    if request_tokens(asked) <= trigger:
        assert clearing(input_tokens=trigger, keep=0).apply(asked).request is asked


# --- tool uses ---------------------------------------------------------------------------------------


def rounds(count: int, size: int = 400, name: str = "run") -> list[Content]:
    turns = [Content(USER, (Part("Go."),))]
    for number in range(count):
        turns.append(
            Content(MODEL, (Part(FunctionCall(name, {"of": text(80)}, str(number)), signature="s"),))
        )
        turns.append(Content(USER, (Part(FunctionResponse(name, {"result": text(size)}, str(number))),)))
    return turns


def cleared(contents: Sequence[Content]) -> list[str | None]:
    found = (each for turn in contents for each in responses(turn))
    return [each.id for each in found if "removed" in each.response]


def test_the_oldest_go_and_the_newest_stay():
    after = edited(clearing(input_tokens=500), rounds(8))
    assert cleared(after) == ["0", "1", "2", "3", "4"]
    (first,) = responses(after[2])
    assert first.response == {"removed": "The result of run was removed to save space."}
    assert [call.args for call in calls(after[1])] == [{"of": text(80)}]


def test_between_two_clearings_nothing_moves():
    """The trigger counts what is left after a clearing, not what the client sent."""
    edit = clearing(tool_uses=6, keep=2)
    counts = [len(cleared(edited(edit, rounds(number)))) for number in range(1, 16)]
    assert counts == [0] * 6 + [5] * 5 + [10] * 4


def test_a_prompt_of_as_many_tokens_as_the_trigger_is_left():
    contents = rounds(8)
    tokens = request_tokens(GenerateRequest("m", tuple(contents)))
    assert cleared(edited(clearing(input_tokens=tokens), contents)) == []
    assert cleared(edited(clearing(input_tokens=tokens - 1), contents)) != []


def test_too_little_to_clear_is_left():
    contents = rounds(6)
    assert cleared(edited(clearing(tool_uses=1, clear_at_least=10_000), contents)) == []
    assert len(cleared(edited(clearing(tool_uses=1, clear_at_least=250), contents))) == 3


def test_excluded_tools_keep_their_results():
    contents = [*rounds(3, name="read"), Content(MODEL, (Part("Done."),)), *rounds(6)]
    after = edited(clearing(tool_uses=1, exclude_tools=frozenset({"read"})), contents)
    kept = [each.name for turn in after for each in responses(turn) if "removed" not in each.response]
    assert kept == ["read"] * 3 + ["run"] * 3


@pytest.mark.parametrize(
    ("wanted", "inputs"),
    [(True, []), (frozenset({"run"}), []), (frozenset({"read"}), ["of"]), (False, ["of"])],
)
def test_inputs_go_if_the_client_wants_it(wanted, inputs):
    after = edited(clearing(tool_uses=1, clear_tool_inputs=wanted), rounds(6))
    assert [list(call.args) for call in calls(after[1])] == [inputs]
    assert [part.signature for part in after[1].parts] == ["s"]
    assert [list(call.args) for call in calls(after[-2])] == [["of"]]


def test_media_of_a_cleared_result_go_too():
    contents = rounds(5)
    shown = FunctionResponse("run", {}, "0", (InlineData("image/png", "AAAA"),))
    contents[2] = Content(USER, (Part(shown),))
    (first,) = responses(edited(clearing(tool_uses=1), contents)[2])
    assert first.media == ()


def test_a_history_of_nothing_but_results():
    contents = [
        Content(USER, (Part(FunctionResponse("run", {"result": text(900)}, str(n))),)) for n in range(9)
    ]
    after = edited(clearing(input_tokens=100, keep=1), contents)
    assert broken_rules(after, prefill=False) == []
    assert len(cleared(after)) == 8


def test_work_grows_with_the_history_and_not_with_its_square():
    """An edit that is due in each request but may never clear looks at each tool use once."""
    contents = rounds(2000)
    seen = 0

    class Counting(int):
        def __le__(self, other: object) -> bool:
            nonlocal seen
            seen += 1
            return int(self) <= other  # type: ignore[operator]

    edited(clearing(tool_uses=1, clear_at_least=Counting(10**9)), contents)
    assert 0 < seen <= len(contents)


# --- thoughts ----------------------------------------------------------------------------------------


def answer(number: int, *, loop: bool = False) -> list[Content]:
    thought = Part(f"thought {number}", thought=True)
    asked = [Content(USER, (Part(f"Question {number}."),))]
    if loop:
        call = Part(FunctionCall("run", {}, f"c{number}"), signature=f"s{number}")
        asked += [
            Content(MODEL, (thought, call)),
            Content(USER, (Part(FunctionResponse("run", {"result": "fine"}, f"c{number}")),)),
        ]
    return [*asked, Content(MODEL, (thought, Part(f"Answer {number}.")))]


def thoughts(contents: Sequence[Content]) -> list[Any]:
    return [part.data for turn in contents for part in turn.parts if part.thought]


def test_the_newest_answers_with_thoughts_keep_them():
    spoken = Content(MODEL, (Part("Without thoughts."),))
    contents = [*answer(1, loop=True), *answer(2), Content(USER, (Part("And?"),)), spoken, *answer(3)]
    contents.append(Content(USER, (Part("Next."),)))
    assert thoughts(edited(thinking(), contents)) == ["thought 3"]
    assert thoughts(edited(thinking(keep=2), contents)) == ["thought 2", "thought 3"]
    assert edited(thinking(keep=3), contents) == tuple(contents)
    applied = thinking().apply(GenerateRequest("m", tuple(contents)))
    assert (applied.changes, applied.notes) == (2, ("context.clear_thinking",))


def test_the_running_tool_loop_keeps_its_thoughts():
    contents = [*answer(1), *answer(2, loop=True)[:-1]]
    assert edited(thinking(), contents)[-3:] == tuple(contents)[-3:]


def test_a_turn_of_thoughts_alone_stays():
    alone = Content(MODEL, (Part("only a thought", thought=True),))
    contents = [Content(USER, (Part("a"),)), alone, *answer(2), Content(USER, (Part("b"),))]
    assert edited(thinking(), contents)[1] == alone
