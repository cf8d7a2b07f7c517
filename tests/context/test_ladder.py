"""Every history becomes a legal one that fits, and stays the same until the grid moves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from gemini_rules import broken_rules, calls, responses
from hypothesis import given
from hypothesis import strategies as st

from bridge.context import LADDER
from bridge.context.history import History, history_of
from bridge.context.ladder import Fitted, fits, shorten
from bridge.context.window import Window, window_of
from bridge.gemini.model_capabilities import ModelCapabilities
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
STEPS = tuple(kind(SETTINGS) for kind in LADDER)
LIMITS = st.sampled_from((1024, 2048, 4096, 8192, 16384))


def window(limit: int) -> Window:
    found = window_of(GenerateRequest("m", ()), ModelCapabilities(window=limit), SETTINGS)
    assert found is not None
    return found


def history(contents: Sequence[Content]) -> History:
    found, notes = history_of(GenerateRequest("m", tuple(contents)))
    assert notes == ()
    return found


def shortened(contents: Sequence[Content], limit: int) -> Fitted:
    return shorten(history(contents), window(limit), STEPS)


# --- any history -------------------------------------------------------------------------------------


@given(conversations(), LIMITS)
def test_the_result_is_legal_and_no_call_is_parted_from_its_result(contents, limit):
    turns = shortened(contents, limit).history.turns
    assert broken_rules(turns, prefill=False) == []
    for turn, following in pairwise(turns):
        assert [call.id for call in calls(turn)] == [each.id for each in responses(following)]
    assert calls(turns[-1]) == []


@given(conversations(), LIMITS)
def test_the_result_fits_or_no_more_turns_can_be_dropped(contents, limit):
    after = shortened(contents, limit).history
    openings = [turn for turn in after.turns if turn.role == USER and not responses(turn)]
    assert fits(after, window(limit)) or (len(openings) == 1 and len(after.turns) <= 3)


@given(conversations(), LIMITS)
def test_the_newest_turns_stay_as_they_are(contents, limit):
    after = shortened(contents, limit).history.turns
    newest = after[-1].parts
    assert newest[-len(contents[-1].parts) :] == contents[-1].parts
    if calls(contents[-2]) if len(contents) > 1 else ():
        assert after[-2] == contents[-2]


@given(conversations(), LIMITS)
def test_a_second_application_changes_nothing(contents, limit):
    once = shortened(contents, limit)
    if fits(once.history, window(limit)):
        again = shortened(once.history.turns, limit)
        assert (again.taken, again.history.turns) == ((), once.history.turns)


@given(conversations(), LIMITS)
def test_a_request_begins_as_the_one_before_unless_the_grid_moved(contents, limit):
    grid = window(limit).grid
    for before, after in pairwise(requests_of(contents)):
        earlier, later = shortened(before, limit), shortened(after, limit)
        moved = (history(before).length - 1) // grid != (history(after).length - 1) // grid
        began = not earlier.taken and later.taken
        space = history(before).until_next_move(grid)
        tight = earlier.history.tokens + space > window(limit).room
        if not (moved or began or (earlier.taken and tight)):
            turns = earlier.history.turns
            assert later.history.turns[: len(turns)] == turns


@given(conversations(), LIMITS)
def test_a_history_that_fits_is_left_alone(contents, limit):
    found = history(contents)
    if fits(found, window(limit)):
        assert shortened(contents, limit) == Fitted(found, ())


@given(conversations(), LIMITS, st.sampled_from(STEPS))
def test_each_step_alone_is_legal_and_idempotent(contents, limit, step):
    once = step.apply(history(contents), window(limit)).history
    assert broken_rules(once.turns, prefill=False) == []
    assert once.tokens <= history(contents).tokens + 30  # a sentence may replace what was shorter


# --- examples ----------------------------------------------------------------------------------------


def user(*parts: Part | str) -> Content:
    return Content(USER, tuple(part if isinstance(part, Part) else Part(part) for part in parts))


def model(*parts: Part | str) -> Content:
    return Content(MODEL, user(*parts).parts)


def call(name: str) -> Part:
    return Part(FunctionCall("run", {}, name))


def result(name: str, size: int = 40, *media: InlineData) -> Part:
    return Part(FunctionResponse("run", {"result": text(size)}, name, media))


def taken(fitted: Fitted) -> dict[str, int]:
    return {step.name: step.changes for step in fitted.taken}


def test_thoughts_go_first_and_stay_beside_calls():
    thought = Part(text(4000), thought=True)
    first = [user("a"), model(thought, call("1")), user(result("1")), model(thought, "said")]
    after = shortened([*first, user("b"), model(text(4000)), user("c")], 2900)
    assert taken(after) == {"old_thoughts": 1}
    assert after.history.turns[1] == first[1]
    assert after.history.turns[3] == model("said")


def test_old_results_become_a_sentence_with_size_and_name():
    contents = [user("a"), model(call("1")), user(result("1", 12_000)), model("x"), user(text(6000))]
    after = shortened(contents, 4096)
    assert taken(after) == {"old_results": 1}
    (masked,) = responses(after.history.turns[2])
    assert (masked.name, masked.id) == ("run", "1")
    sentence = "The result of run (about 3003 tokens) was removed to save space."
    assert masked.response == {"removed": sentence}


def test_results_stay_if_too_little_would_be_saved():
    few = [user("a"), model(call("1")), user(result("1", 1600)), model("x"), user(text(16_000))]
    assert taken(shortened(few, 4096)) == {"leading_turns": 4}


def test_old_media_become_sentences_in_turns_and_in_results():
    picture = InlineData("image/png", "AAAA")
    shown = [user(Part(picture), "what is it?"), model(call("1")), user(result("1", 40, picture))]
    after = shortened([*shown, model("x"), user(text(8000))], 4096)
    assert taken(after) == {"old_media": 2}
    sentence = "A file of type image/png was removed to save space."
    assert after.history.turns[0] == user(sentence, "what is it?")
    (kept,) = responses(after.history.turns[2])
    assert (kept.media, kept.response["removed_media"]) == ((), [sentence])


def test_a_long_tool_loop_keeps_its_task_and_its_newest_rounds():
    rounds = [each for n in range(60) for each in (model(call(str(n))), user(result(str(n), 300)))]
    after = shortened([user("The task."), *rounds], 4096).history.turns
    assert [part.data for part in after[0].parts] == [
        "Earlier turns of this conversation were removed to save space.",
        "The task.",
    ]
    assert [each.id for turn in after for each in calls(turn)][-1] == "59"
    assert 20 < len(after) < 100


def test_a_turn_larger_than_the_window_does_not_fit():
    after = shortened([user("a"), model("b"), user(text(40_000))], 4096)
    assert not fits(after.history, window(4096))
    assert len(after.history.turns) == 1


def test_a_large_turn_in_the_middle_is_dropped():
    after = shortened([user("a"), model("b"), user(text(40_000)), model("c"), user("d")], 4096)
    assert fits(after.history, window(4096))
    assert after.history.turns[-1].parts[-1] == Part("d")


def test_a_history_of_nothing_but_results():
    contents = [user(result(str(number), 2000)) for number in range(40)]
    found, notes = history_of(GenerateRequest("m", tuple(contents)))
    assert "history.result_without_call" in notes
    after = shorten(found, window(4096), STEPS)
    assert broken_rules(after.history.turns, prefill=False) == []


@pytest.mark.parametrize(
    ("capabilities", "asked", "reserve"),
    [
        (ModelCapabilities(window=100_000), 5000, 0),
        (ModelCapabilities(window=100_000, shared_window=True), 5000, 5000),
        (ModelCapabilities(window=100_000, shared_window=True), None, 8192),
        (ModelCapabilities(window=100_000, shared_window=True, output_limit=4000), 9000, 4000),
        (ModelCapabilities(window=10_000, shared_window=True), 9000, 2500),
        (ModelCapabilities(window=10_000, shared_window=True), "many", 2500),
    ],
)
def test_the_reserve_is_what_the_answer_may_take(capabilities, asked, reserve):
    generation = {} if asked is None else {"maxOutputTokens": asked}
    found = window_of(GenerateRequest("m", (), generation=generation), capabilities, SETTINGS)
    assert found is not None
    assert found.reserve == reserve


def test_a_model_with_an_unknown_window_has_none():
    assert window_of(GenerateRequest("m", ()), ModelCapabilities(), SETTINGS) is None


def test_the_grid_and_what_is_protected_are_smaller_in_small_windows():
    large, small = window(1_048_576), window(32_768)
    assert (large.grid, large.protected, large.least_saved) == (32_768, 50_000, 30_000)
    assert (small.grid, small.protected, small.least_saved) == (4096, 8192, 4096)
