"""Every client history becomes one that Gemini accepts, without lost content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import pytest
from gemini_rules import broken_rules, calls, is_blank, responses
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.gemini.history import NO_RESULT, NUDGE, repair_history
from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    OtherData,
    Part,
)

ANY_SPEED = settings(deadline=None)


def user(*parts: Part | str) -> Content:
    return _content(USER, parts)


def model(*parts: Part | str) -> Content:
    return _content(MODEL, parts)


def _content(role: str, parts: Iterable[Part | str]) -> Content:
    return Content(role, tuple(part if isinstance(part, Part) else Part(part) for part in parts))


def call(name: str, call_id: str | None = None) -> Part:
    return Part(FunctionCall(name, {"of": call_id or name}, call_id))


def result(name: str, call_id: str | None = None, **response: Any) -> Part:
    return Part(FunctionResponse(name, response or {"result": "fine"}, call_id))


def lost(name: str, call_id: str | None = None) -> Part:
    return Part(FunctionResponse(name, {"error": NO_RESULT}, call_id))


def invented(name: str, call_id: str | None = None) -> Part:
    return Part(FunctionCall(name, {}, call_id))


# --- examples ----------------------------------------------------------------------------------------

NUDGED = user(NUDGE)
ASK = user("Please.")

REPAIRS: dict[str, tuple[list[Content], list[Content], list[str]]] = {
    "nothing at all": ([], [NUDGED], ["history.began_without_user"]),
    "only blanks": ([user("", " \n"), model("")], [NUDGED], ["history.began_without_user"]),
    "a model that speaks first": (
        [model("Hello."), ASK],
        [NUDGED, model("Hello."), ASK],
        ["history.began_without_user"],
    ),
    "a model that speaks last": (
        [ASK, model("Done.")],
        [ASK, model("Done."), NUDGED],
        ["history.ended_with_model"],
    ),
    "neighbours of one role": (
        [user("a"), user("b"), model("c"), model("d"), user("e")],
        [user("a", "b"), model("c", "d"), user("e")],
        [],
    ),
    "a blank turn between neighbours": (
        [user("a"), model("  "), user("b")],
        [user("a", "b")],
        [],
    ),
    "a role that Gemini does not have": (
        [Content(None, (Part("a"),)), Content("function", (Part("b"),))],
        [user("a", "b")],
        [],
    ),
    "results in another order than the calls": (
        [ASK, model(call("f", "1"), call("g", "2")), user(result("g", "2"), result("f", "1"))],
        [ASK, model(call("f", "1"), call("g", "2")), user(result("f", "1"), result("g", "2"))],
        [],
    ),
    "a result behind what the user said": (
        [ASK, model(call("f", "1")), user("Well?", result("f", "1"))],
        [ASK, model(call("f", "1")), user(result("f", "1"), "Well?")],
        [],
    ),
    "a result that comes late": (
        [ASK, model(call("f", "1")), user("Wait."), model("I wait."), user(result("f", "1"), "Here.")],
        [ASK, model(call("f", "1")), user(result("f", "1"), "Wait."), model("I wait."), user("Here.")],
        ["history.result_moved"],
    ),
    "a late result that was all its turn held": (
        [ASK, model(call("f", "1")), user("Wait."), model("a"), user(result("f", "1")), model("b"), ASK],
        [ASK, model(call("f", "1")), user(result("f", "1"), "Wait."), model("a", "b"), ASK],
        ["history.result_moved"],
    ),
    "a call without its result": (
        [ASK, model(call("f", "1")), user("Never mind.")],
        [ASK, model(call("f", "1")), user(lost("f", "1"), "Never mind.")],
        ["history.call_without_result"],
    ),
    "one of two results is missing": (
        [ASK, model(call("f", "1"), call("f", "2")), user(result("f", "2"))],
        [ASK, model(call("f", "1"), call("f", "2")), user(lost("f", "1"), result("f", "2"))],
        ["history.call_without_result"],
    ),
    "a call at the end": (
        [ASK, model(call("f", "1"))],
        [ASK, model(call("f", "1")), user(lost("f", "1"))],
        ["history.call_without_result"],
    ),
    "a result without its call": (
        [ASK, model("Hm."), user(result("f", "1"), "There.")],
        [ASK, model("Hm.", invented("f", "1")), user(result("f", "1"), "There.")],
        ["history.result_without_call"],
    ),
    "a result without its call at the very beginning": (
        [user(result("f", "1"), "There.")],
        [NUDGED, model(invented("f", "1")), user(result("f", "1"), "There.")],
        ["history.result_without_call", "history.began_without_user"],
    ),
    "a result that names no tool": (
        [ASK, model("Hm."), user(result("", "1"))],
        [ASK, model("Hm.", invented("unknown_tool", "1")), user(result("unknown_tool", "1"))],
        ["history.result_without_call"],
    ),
    "the same result twice": (
        [ASK, model(call("f", "1")), user(result("f", "1", n=1), result("f", "1", n=2))],
        [ASK, model(call("f", "1"), invented("f", "1")), user(result("f", "1", n=1), result("f", "1", n=2))],
        ["history.result_without_call"],
    ),
    "a result before its call": (
        [ASK, model("Hm."), user(result("f", "1")), model(call("f", "1")), ASK],
        [
            ASK,
            model("Hm.", invented("f", "1")),
            user(result("f", "1")),
            model(call("f", "1")),
            user(lost("f", "1"), "Please."),
        ],
        ["history.result_without_call", "history.call_without_result"],
    ),
    "ids that start anew each turn": (
        [
            ASK,
            model(call("f", "1")),
            user(result("f", "1", n=1)),
            model(call("g", "1")),
            user(result("?", "1", n=2)),
        ],
        [
            ASK,
            model(call("f", "1")),
            user(result("f", "1", n=1)),
            model(call("g", "1")),
            user(result("g", "1", n=2)),
        ],
        [],
    ),
    "one id for two parallel calls": (
        [ASK, model(call("f", "1"), call("g", "1")), user(result("f", "1", n=1), result("g", "1", n=2))],
        [ASK, model(call("f", "1"), call("g", "1")), user(result("f", "1", n=1), result("g", "1", n=2))],
        [],
    ),
    "a result with an id for a call that has none": (
        [ASK, model(call("f")), user(result("f", "1"))],
        [ASK, model(call("f")), user(result("f"))],
        [],
    ),
    "a result for another call of the same tool": (
        [ASK, model(call("f", "1")), user(result("f", "2"))],
        [ASK, model(call("f", "1"), invented("f", "2")), user(lost("f", "1"), result("f", "2"))],
        ["history.result_without_call", "history.call_without_result"],
    ),
    "no ids, and the results in another order": (
        [ASK, model(call("f"), call("g")), user(result("g"), result("f"))],
        [ASK, model(call("f"), call("g")), user(result("f"), result("g"))],
        [],
    ),
}


@pytest.mark.parametrize("name", REPAIRS)
def test_a_broken_history_is_repaired_as_in_the_examples(name: str) -> None:
    broken, whole, notes = REPAIRS[name]
    repaired = repair_history(broken, prefill=False)
    assert list(repaired.contents) == whole
    assert list(repaired.notes) == notes


@pytest.mark.parametrize("name", REPAIRS)
def test_the_examples_themselves_break_no_rule(name: str) -> None:
    assert broken_rules(REPAIRS[name][1], prefill=False) == []


def test_a_model_that_takes_a_prefill_gets_it() -> None:
    history = (ASK, model("Once upon a"))
    assert repair_history(history, prefill=True) == (history, ())


def test_a_call_at_the_end_is_no_prefill() -> None:
    assert repair_history([ASK, model(call("f"))], prefill=True).contents[-1] == user(lost("f"))


def test_signed_blank_parts_are_kept() -> None:
    history = (ASK, model("a", Part("", signature="s")), ASK)
    assert repair_history(history, prefill=False) == (history, ())


def test_parts_of_merged_turns_stay_apart() -> None:
    merged = repair_history([ASK, model(Part("a", signature="s")), model("b"), ASK], prefill=False)
    assert merged.contents[1].parts == (Part("a", signature="s"), Part("b"))


def test_other_fields_of_merged_turns_are_kept() -> None:
    first, second = replace(user("a"), extra={"x": 1}), replace(user("b"), extra={"y": 2})
    assert repair_history([first, second], prefill=False).contents[0].extra == {"x": 1, "y": 2}


def test_a_result_is_matched_by_id_before_name() -> None:
    """A legacy `function_call` has no id; it must not take the result of a call that has one."""
    history = [ASK, model(call("f"), call("f", "1")), user(result("f", "1", n=1), result("f", n=2))]
    given = responses(repair_history(history, prefill=False).contents[2])
    assert [response.response for response in given] == [{"n": 2}, {"n": 1}]


def test_a_response_in_a_model_turn_moves_to_a_user_turn() -> None:
    repaired = repair_history([ASK, model(call("f", "1"), result("f", "1")), user("And?")], prefill=False)
    assert list(repaired.contents) == [ASK, model(call("f", "1")), user(result("f", "1"), "And?")]


def test_a_call_in_a_user_turn_does_not_break_the_history() -> None:
    assert (
        broken_rules(repair_history([user(call("f", "1"), "Hm.")], prefill=False).contents, prefill=False)
        == []
    )


# --- any history -------------------------------------------------------------------------------------

NAMES = st.sampled_from(["f", "g", ""])
IDS = st.sampled_from([None, "", "1", "2", "3"])
BLANKS = st.sampled_from([Part(), Part(""), Part(" \n\t"), Part("", thought=True)])
SAID = st.sampled_from(
    [
        Part("text"),
        Part("text", thought=True),
        Part("text", signature="s"),
        Part("", signature="s"),
        Part(" ", thought=True, signature="s"),
        Part(InlineData("image/png", "AAAA")),
        Part(FileData("gs://b/o")),
        Part(OtherData("executableCode", {"code": "1"})),
        Part(None, extra={"newField": {}}),
    ]
)
CALLS = st.builds(
    lambda name, call_id, signature: Part(FunctionCall(name, {}, call_id), signature=signature),
    NAMES,
    IDS,
    st.sampled_from([None, "s"]),
)
RESULTS = st.builds(lambda name, call_id: Part(FunctionResponse(name, {}, call_id)), NAMES, IDS)

ROLES_OF_USERS = st.sampled_from([USER, None, "function", ""])
USER_TURNS = st.builds(Content, ROLES_OF_USERS, st.lists(BLANKS | SAID | RESULTS, max_size=5).map(tuple))
MODEL_TURNS = st.builds(Content, st.just(MODEL), st.lists(BLANKS | SAID | CALLS, max_size=5).map(tuple))
HISTORIES = st.lists(USER_TURNS | MODEL_TURNS, max_size=10)
MIXED_TURNS = st.builds(
    Content,
    ROLES_OF_USERS | st.just(MODEL),
    st.lists(BLANKS | SAID | CALLS | RESULTS, max_size=5).map(tuple),
)


def numbered(contents: Iterable[Content]) -> list[Content]:
    """Return the history with a number in every part, so that parts can be distinguished."""
    numbers = count(1)
    return [
        replace(content, parts=tuple(_with_number(part, next(numbers)) for part in content.parts))
        for content in contents
    ]


def _with_number(part: Part, number: int) -> Part:
    match part.data:
        case FunctionCall():
            return replace(part, data=replace(part.data, args={"number": number}))
        case FunctionResponse():
            return replace(part, data=replace(part.data, response={"number": number}))
    return part if is_blank(part) else replace(part, extra={"number": number})


def number_of(part: Part) -> int | None:
    match part.data:
        case FunctionCall():
            return (part.data.args or {}).get("number")
        case FunctionResponse():
            return part.data.response.get("number")
    return part.extra.get("number")


def numbers_in(contents: Iterable[Content], *, results: bool) -> list[int]:
    """Return the numbers of the result parts, or of all other parts, in order."""
    return [
        number
        for content in contents
        for part in content.parts
        if isinstance(part.data, FunctionResponse) is results and (number := number_of(part)) is not None
    ]


@ANY_SPEED
@given(contents=HISTORIES, prefill=st.booleans())
def test_every_repaired_history_follows_geminis_rules(contents: list[Content], prefill: bool) -> None:
    assert broken_rules(repair_history(contents, prefill=prefill).contents, prefill) == []


@ANY_SPEED
@given(contents=st.lists(MIXED_TURNS, max_size=6), prefill=st.booleans())
def test_a_repaired_history_with_misplaced_calls_and_results_follows_geminis_rules(
    contents: list[Content], prefill: bool
) -> None:
    assert broken_rules(repair_history(contents, prefill=prefill).contents, prefill) == []


@ANY_SPEED
@given(contents=HISTORIES.map(numbered), prefill=st.booleans())
def test_no_part_is_lost_doubled_or_moved_past_another(contents: list[Content], prefill: bool) -> None:
    repaired = repair_history(contents, prefill=prefill).contents
    assert numbers_in(repaired, results=False) == numbers_in(contents, results=False)
    assert sorted(numbers_in(repaired, results=True)) == sorted(numbers_in(contents, results=True))


@ANY_SPEED
@given(contents=HISTORIES.map(numbered))
def test_signatures_stay_on_their_parts(contents: list[Content]) -> None:
    def signatures(turns: Iterable[Content]) -> set[tuple[int | None, str]]:
        return {(number_of(part), part.signature) for turn in turns for part in turn.parts if part.signature}

    assert signatures(repair_history(contents, prefill=False).contents) == signatures(contents)


@ANY_SPEED
@given(contents=HISTORIES, prefill=st.booleans())
def test_a_repaired_history_needs_no_second_repair(contents: list[Content], prefill: bool) -> None:
    once = repair_history(contents, prefill=prefill).contents
    assert repair_history(once, prefill=prefill) == (once, ())


@ANY_SPEED
@given(data=st.data())
def test_a_late_result_is_moved_to_the_call_with_its_id(data: st.DataObject) -> None:
    contents: list[Content] = [ASK]
    waiting: list[Part] = []
    numbers = count(1)
    for _ in range(data.draw(st.integers(1, 5))):
        made = [call(data.draw(NAMES), str(next(numbers))) for _ in range(data.draw(st.integers(0, 3)))]
        waiting += [result("?", part.data.id, of=part.data.id) for part in made]
        waiting = data.draw(st.permutations(waiting))
        now, waiting = waiting[::2], waiting[1::2]
        contents += [model(*made, "So."), user(*now, "Go on.")]
    contents.append(user(*waiting))
    repaired = repair_history(contents, prefill=False).contents
    for before, turn in pairwise(repaired):
        for asked, answer in zip(calls(before), responses(turn), strict=True):
            assert answer.response == {"of": asked.id}


# --- a legal history ---------------------------------------------------------------------------------


@st.composite
def legal_histories(draw: st.DrawFn) -> tuple[Content, ...]:
    contents: list[Content] = []
    owed: list[Part] = []
    ids_start_anew = draw(st.booleans())
    numbers = count(1)
    for _ in range(draw(st.integers(1, 5))):
        said = draw(st.lists(SAID, min_size=0 if owed else 1, max_size=2))
        contents.append(Content(USER, (*owed, *said)))
        if ids_start_anew:
            numbers = count(1)
        made = [
            call(draw(st.sampled_from(["f", "g"])), draw(st.sampled_from([None, str(next(numbers))])))
            for _ in range(draw(st.integers(0, 3)))
        ]
        owed = [result(part.data.name, part.data.id, of=number) for number, part in enumerate(made)]
        spoken = draw(st.lists(SAID, min_size=0 if made else 1, max_size=2))
        contents.append(Content(MODEL, (*spoken, *made)))
    if owed or draw(st.booleans()):
        contents.append(Content(USER, (*owed, *([] if owed else [Part("And?")]))))
    return tuple(contents)


@ANY_SPEED
@given(contents=legal_histories())
def test_a_legal_history_is_unchanged_and_not_noted(contents: tuple[Content, ...]) -> None:
    assert broken_rules(contents, prefill=True) == []
    assert repair_history(contents, prefill=True) == (contents, ())


# --- growth ------------------------------------------------------------------------------------------


@st.composite
def steps(draw: st.DrawFn) -> list[list[Content]]:
    """Draw one addition to a history: a model turn and all its results, in any order and with any error
    except a result that arrives after its turn."""
    numbers, grown = count(1), [[ASK]]
    for _ in range(draw(st.integers(1, 5))):
        ids = draw(st.booleans())
        made = [
            call(draw(NAMES), str(next(numbers)) if ids else None) for _ in range(draw(st.integers(0, 3)))
        ]
        answered = [Part(FunctionResponse(each.data.name, {"ok": 1}, each.data.id)) for each in made]
        strays = [result("stray", f"stray {next(numbers)}")] if draw(st.booleans()) and ids else []
        spoken = [Part(draw(st.sampled_from(["", " ", "Well."])))]
        turns = [model("So.", *spoken), *([model(each) for each in made] if draw(st.booleans()) else [])]
        turns = turns if len(turns) > 1 or not made else [model("So.", *made)]
        returned = draw(st.permutations([*answered, *strays, *spoken]))
        grown.append([*turns, *[user(each) for each in returned], user("Go on.")])
    return grown


@ANY_SPEED
@given(grown=steps())
def test_repairing_a_growing_history_keeps_its_prefix(grown: list[list[Content]]) -> None:
    """The repair_history of a turn depends only on that turn and the earlier ones."""
    histories = [[turn for step in grown[:end] for turn in step] for end in range(1, len(grown) + 1)]
    repaired = [repair_history(history, prefill=False).contents for history in histories]
    for earlier, later in pairwise(repaired):
        assert later[: len(earlier)] == earlier
        assert len(later) > len(earlier)
