"""The edits that every request gets: repeated tool histories, and the strict rule for invalid answers."""

from __future__ import annotations

import pytest
from gemini_rules import broken_rules
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.context.base import RequestEdit
from bridge.context.history import is_opening
from bridge.context.repeated_turns import RepeatedTurns
from bridge.context.strict_history import StrictHistory
from bridge.gemini.history import repair_history
from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    Part,
)
from bridge.settings.context import ContextSettings
from tests.context.histories import conversations

REPEATED = RepeatedTurns(ContextSettings())
STRICT = StrictHistory(ContextSettings(history="strict"))


def user(*texts: str) -> Content:
    return Content(USER, tuple(map(Part, texts)))


def model(*texts: str) -> Content:
    return Content(MODEL, tuple(map(Part, texts)))


def calls(*names: str, **args: str) -> Content:
    return Content(MODEL, tuple(Part(FunctionCall("run", args, name), signature="s") for name in names))


def results(*names: str, said: str = "fine") -> Content:
    return Content(USER, tuple(Part(FunctionResponse("run", {"result": said}, name)) for name in names))


def request(*contents: Content) -> GenerateRequest:
    return GenerateRequest("m", contents)


def applied(edit: RequestEdit, asked: GenerateRequest) -> tuple[GenerateRequest, tuple[str, ...]]:
    edited = edit.apply(asked)
    return edited.request, edited.notes


# --- repeated turns ----------------------------------------------------------------------------------

ONCE = (user("Go."), calls("a", "b"), results("a", "b"), calls("c"), results("c"))


def test_a_tool_history_that_is_sent_twice_is_kept_once():
    edited, notes = applied(REPEATED, request(*ONCE, *ONCE[1:], model("Done."), user("Next.")))
    assert edited.contents == (*ONCE, model("Done."), user("Next."))
    assert notes == ("history.repeated_turns",) * 2


def test_each_result_in_a_message_of_its_own_makes_no_difference():
    parts = [Content(each.role, (part,)) for each in ONCE for part in each.parts]
    edited, notes = applied(REPEATED, request(*parts, *parts[1:], user("Next.")))
    assert repair_history(edited.contents, prefill=True).contents[:4] == ONCE[:4]
    assert len(notes) == 2


@pytest.mark.parametrize(
    "again",
    [
        (calls("c"), results("c", said="another")),
        (calls("c", of="another"), results("c")),
        (Content(MODEL, (Part("Once more."), *calls("c").parts)), results("c")),
        (calls("x"), results("x")),
        (calls("c", "x"), results("c", "x")),
        (Content(MODEL, (Part(FunctionCall("run")),)), Content(USER, (Part(FunctionResponse("run")),))),
    ],
)
def test_what_differs_is_a_real_repetition(again):
    asked = request(*ONCE, *again)
    edited, notes = applied(REPEATED, asked)
    assert (edited is asked, notes) == (True, ())


def test_ids_that_a_client_uses_for_other_calls_too_prove_nothing():
    polls = [each for n in range(5) for each in (calls("1", of=str(n % 2)), results("1"))]
    asked = request(user("Go."), *polls)
    assert REPEATED.apply(asked).request is asked


def test_what_the_user_says_beside_repeated_results_stays():
    beside = Content(USER, (*results("c").parts, Part("Hurry.")))
    edited, _ = applied(REPEATED, request(*ONCE, calls("c"), beside))
    assert edited.contents == (*ONCE, user("Hurry."))


@given(conversations(), st.data())
@settings(max_examples=50)
def test_any_conversation_that_is_appended_to_itself_stays_legal_and_short(contents, data):
    starts = [place for place, turn in enumerate(contents) if turn.role == MODEL or is_opening(turn)]
    start = data.draw(st.sampled_from(starts))
    edited, _ = applied(REPEATED, request(*contents, *contents[start:]))
    repaired = repair_history(edited.contents, prefill=False).contents
    assert broken_rules(repaired, prefill=False) == []
    ids = [call.id for content in repaired for call in content.calls()]
    assert len(ids) == len(set(ids))
    assert REPEATED.apply(edited).request is edited


@given(conversations())
@settings(max_examples=50)
def test_a_conversation_without_repetitions_is_the_same_object(contents):
    asked = request(*contents)
    assert REPEATED.apply(asked).request is asked


# --- the strict rule ---------------------------------------------------------------------------------


def test_an_invalid_answer_takes_its_question_with_it():
    asked = request(user("a"), model("  "), user("b"), model("B"), user("c"), Content(MODEL), user("d"))
    edited, notes = applied(STRICT, asked)
    assert edited.contents == (user("b"), model("B"), user("d"))
    assert notes == ("history.invalid_turns",)


def test_one_invalid_turn_of_a_run_is_enough():
    edited, _ = applied(STRICT, request(user("a"), model("A"), model(""), user("b")))
    assert edited.contents == (user("b"),)


def test_calls_and_results_stay():
    asked = request(user("a"), calls("1"), results("1"), model(""), user("b"))
    assert STRICT.apply(asked).request is asked
    asked = request(user("a"), calls("1"), model(""), results("1"), user("b"))
    assert STRICT.apply(asked).request is asked


def test_a_signed_empty_text_is_valid():
    asked = request(user("a"), Content(MODEL, (Part("", signature="s"),)), user("b"))
    assert STRICT.apply(asked).request is asked


def test_without_the_strict_rule_the_question_stays():
    assert not StrictHistory(ContextSettings()).is_on()
    kept = repair_history((user("a"), model(" "), user("b")), prefill=False).contents
    assert kept == (user("a", "b"),)
