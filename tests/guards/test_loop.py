"""A looping agent is stopped, and a busy agent is not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    OtherData,
    Part,
)
from bridge.guards.base import ShortCircuit
from bridge.guards.loop import LoopDetector
from bridge.settings import PROJECT
from bridge.settings.guards import GuardSettings, LoopSettings, load_guards

ANY_SPEED = settings(deadline=None)
DELIVERED = load_guards(PROJECT / "config" / "guards.toml")
GOOD, BAD = {"result": "fine"}, {"error": "no such file"}
REMINDER = "<system-reminder>\nThe todo list is empty.\n</system-reminder>"


def said(*parts: Part | str) -> Content:
    return Content(USER, tuple(part if isinstance(part, Part) else Part(part) for part in parts))


def call(name: str, args: Any, call_id: str | None) -> Part:
    return Part(FunctionCall(name, args, call_id))


def result(name: str, response: Any, call_id: str | None) -> Part:
    return Part(FunctionResponse(name, response, call_id))


ASK = said("Please.")


class Story:
    """A history builder that gives every call its own id."""

    def __init__(self) -> None:
        self.contents: list[Content] = [ASK]
        self._numbers = count(1)

    def made(self, name: str, args: Any, response: Any = None) -> Story:
        return self.together([(name, args, response or GOOD)])

    def together(self, calls: Iterable[tuple[str, Any, Any]], backwards: bool = False) -> Story:
        """Add several calls of one turn; a result of None is missing."""
        told = [(f"c{next(self._numbers)}", *each) for each in calls]
        self.contents.append(Content(MODEL, tuple(call(name, args, own) for own, name, args, _ in told)))
        results = [result(name, response, own) for own, name, _, response in told if response is not None]
        if results:
            self.contents.append(said(*(reversed(results) if backwards else results)))
        return self

    def one_by_one(self, name: str, args: Any, *responses: Any) -> Story:
        """Add calls of one turn in a protocol that sends each separately."""
        ids = [f"c{next(self._numbers)}" for _ in responses]
        self.contents += [Content(MODEL, (call(name, args, own),)) for own in ids]
        self.contents += [said(result(name, *told)) for told in zip(responses, ids, strict=True)]
        return self

    def without_ids(self, *turns: Iterable[tuple[str, Any, Any]]) -> Story:
        """Remove the ids, so that only the order matches calls and results."""
        for turn in turns:
            calls = list(turn)
            self.contents += [
                Content(MODEL, tuple(call(name, args, None) for name, args, _ in calls)),
                said(*(result(name, response, None) for name, _, response in calls)),
            ]
        return self

    def again(self, *responses: Any) -> Story:
        """Renumber the calls, like an agent that restarts its ids in every turn."""
        for response in responses:
            self.contents += [
                Content(MODEL, (call("f", {}, "call_0"),)),
                said(result("f", response, "call_0")),
            ]
        return self

    def then(self, *parts: Part | str) -> Story:
        self.contents.append(said(*parts))
        return self

    def model_said(self, text: str) -> Story:
        self.contents.append(Content(MODEL, (Part(text),)))
        return self


def repeated(times: int, response: Any, name: str = "f", args: Any = None) -> Story:
    story = Story()
    for _ in range(times):
        story.made(name, args or {"of": "x"}, response)
    return story


def decision_on(story: Story, guard_settings: GuardSettings = DELIVERED) -> Any:
    request = GenerateRequest("gemini-test", tuple(story.contents))
    answer = LoopDetector(guard_settings).on_request(request)
    assert answer is request or isinstance(answer, ShortCircuit)
    return answer


def is_loop(story: Story, guard_settings: GuardSettings = DELIVERED) -> bool:
    return isinstance(decision_on(story, guard_settings), ShortCircuit)


# --- identical calls at the end ----------------------------------------------------------------------

LOOPS: dict[str, Story] = {
    "failures without ids": Story().without_ids([("f", {}, BAD)], [("f", {}, BAD)]),
    "two identical failures": repeated(2, BAD),
    "three identical successes": repeated(3, GOOD),
    "many identical successes": repeated(9, GOOD),
    "failures told by Error": repeated(2, {"result": "ValueError: bad"}),
    "failures told by failed": repeated(2, {"result": "make: failed"}),
    "failures told deep inside": repeated(2, {"result": [{"status": "an error"}]}),
    "failures with different words": Story()
    .made("f", {"a": 1}, {"error": "at 10:01"})
    .made("f", {"a": 1}, {"error": "at 10:02"}),
    "another order of keys": Story()
    .made("f", {"a": 1, "b": {"c": 2, "d": 3}}, BAD)
    .made("f", {"b": {"d": 3, "c": 2}, "a": 1}, BAD),
    "blanks around a text": Story().made("f", {"a": "ls -a"}, BAD).made("f", {"a": "  ls -a\n"}, BAD),
    "blanks around a text in a list": Story()
    .made("f", {"a": [["ls "]]}, BAD)
    .made("f", {"a": [[" ls"]]}, BAD),
    "results with other keys first": Story()
    .made("f", {"a": 1}, {"x": 1, "y": 2})
    .made("f", {"a": 1}, {"y": 2, "x": 1})
    .made("f", {"a": 1}, {"x": 1, "y": 2}),
    "no arguments at all": Story().made("f", None, BAD).made("f", {}, BAD),
    "other calls before": repeated(1, GOOD, "g").made("f", {}, BAD).made("f", {}, BAD),
    "a text of the model in between": Story().made("f", {}, BAD).model_said("Again.").made("f", {}, BAD),
    "a reminder in between": Story().made("f", {}, BAD).then(REMINDER).made("f", {}, BAD),
    "a reminder with blanks before it": Story().made("f", {}, BAD).then("\n " + REMINDER).made("f", {}, BAD),
    "an empty user text in between": Story().made("f", {}, BAD).then(" \n").made("f", {}, BAD),
    "a reminder at the end": repeated(2, BAD).then(REMINDER),
    "the loop began after the user spoke": repeated(1, BAD)
    .then("Try again.")
    .made("f", {"of": "x"}, BAD)
    .made("f", {"of": "x"}, BAD),
    "results in another order than the calls": Story()
    .together([("f", {"a": 1}, BAD), ("g", {}, {"result": "1"})], backwards=True)
    .together([("g", {}, {"result": "2"}), ("f", {"a": 1}, BAD)], backwards=True)
    .made("f", {"a": 1}, BAD),
    "parallel ones, turn after turn": Story()
    .together([("f", {}, BAD), ("f", {}, BAD)])
    .together([("f", {}, BAD), ("f", {}, BAD)]),
    "a call that has no result yet in between": Story()
    .made("f", {}, BAD)
    .together([("g", {}, None)])
    .made("f", {}, BAD),
    "a polling tool in between": Story().made("f", {}, BAD).made("wait", {}, GOOD).made("f", {}, BAD),
    "an id that every turn uses again": Story().again(BAD, BAD),
    "no ids at all": Story().without_ids([("f", {}, BAD)], [("f", {}, BAD)]),
    "parallel ones without ids": Story().without_ids(
        *[[("f", {"a": 1}, GOOD), ("f", {"a": 2}, {"result": str(turn)})] for turn in range(2)],
        [("f", {"a": 1}, GOOD)],
        *[[("f", {"a": 1}, GOOD)]] * 2,
    ),
    "parallel ones told one by one, turn after turn": Story()
    .one_by_one("f", {}, BAD, BAD)
    .one_by_one("f", {}, BAD, BAD),
    "other languages": repeated(2, {"error": "ファイルがない"}, "読む", {"道": "é ü 漢字"}),
    "a result as long as a book": repeated(3, {"result": "x" * 2_000_000}),
}

PEACEFUL: dict[str, Story] = {
    "results without ids that differ": Story().without_ids(
        *([("f", {}, {"result": number})] for number in range(5))
    ),
    "two calls without ids, each of which succeeds once": Story().without_ids(
        [("f", {}, GOOD), ("g", {}, BAD)], [("f", {}, BAD), ("g", {}, GOOD)]
    ),
    "nothing was called": Story(),
    "one failure": repeated(1, BAD),
    "two identical successes": repeated(2, GOOD),
    "successes with different results": Story()
    .made("f", {}, {"result": "1"})
    .made("f", {}, {"result": "2"})
    .made("f", {}, {"result": "3"}),
    "a different result among equal ones": Story()
    .made("f", {}, GOOD)
    .made("f", {}, {"result": "2"})
    .made("f", {}, GOOD),
    "other arguments": Story().made("f", {"a": 1}, BAD).made("f", {"a": 2}, BAD),
    "a number is not its text": Story().made("f", {"a": 1}, BAD).made("f", {"a": "1"}, BAD),
    "blanks inside a text": Story().made("f", {"a": "a b"}, BAD).made("f", {"a": "ab"}, BAD),
    "another order in a list": Story().made("f", {"a": [1, 2]}, BAD).made("f", {"a": [2, 1]}, BAD),
    "another tool": Story().made("f", {}, BAD).made("g", {}, BAD),
    "a failure and then a success": Story().made("f", {}, BAD).made("f", {}, GOOD),
    "two successes and a failure": repeated(2, GOOD).made("f", {"of": "x"}, BAD),
    "something else in between": Story().made("f", {}, BAD).made("g", {}, GOOD).made("f", {}, BAD),
    "something else at the end": repeated(3, GOOD).made("g", {}, GOOD),
    "the user spoke in between": Story().made("f", {}, BAD).then("Once more.").made("f", {}, BAD),
    "the user spoke at the end": repeated(2, BAD).then("Go on."),
    "the user spoke beside a reminder": repeated(2, BAD).then(REMINDER, "Go on."),
    "the user spoke behind a reminder in one text": repeated(2, BAD).then(REMINDER + "\nGo on."),
    "the user spoke beside the last result": Story()
    .made("f", {}, BAD)
    .then(result("f", BAD, "c2"), "Stop that.")
    .made("f", {}, BAD),
    "the user showed an image": repeated(2, BAD).then(Part(InlineData("image/png", "aGk="))),
    "parallel ones of one turn": Story().together([("f", {}, BAD)] * 5),
    "parallel ones of one turn with other words": Story().together(
        [("f", {}, {"error": "at 1"}), ("f", {}, {"error": "at 2"}), ("f", {}, {"error": "at 3"})]
    ),
    "parallel ones of one turn, told one by one": Story().one_by_one("f", {}, BAD, BAD, BAD, BAD),
    "different results without ids": Story().without_ids(
        *[[("f", {}, {"result": str(turn)})] for turn in range(3)]
    ),
    "words of failure in a run that went well": repeated(
        2, {"result": "Process exited with code 0\nOutput:\n7 passed, 0 failed"}
    ),
    "words of failure beside an exit code": repeated(
        2, {"output": "grep: error", "metadata": {"exit_code": 0}}
    ),
    "parallel successes in two turns": Story()
    .together([("f", {}, GOOD)] * 3)
    .together([("f", {}, GOOD)] * 3),
    "calls without their results": Story().together([("f", {}, None)]).together([("f", {}, None)]),
    "different results under an id that every turn uses again": Story().again(
        {"result": "1"}, {"result": "2"}, {"result": "3"}
    ),
    "results without their calls": Story().then(result("f", BAD, None), result("f", BAD, None)),
    **{f"polling with {tool}": repeated(30, GOOD, tool) for tool in DELIVERED.loop.polling},
    "polling that fails": repeated(5, BAD, "write_stdin"),
}


@pytest.mark.parametrize("story", LOOPS.values(), ids=LOOPS)
def test_identical_repeated_calls_are_a_loop(story):
    assert decision_on(story).text.startswith("[System] Detected an infinite loop")


@pytest.mark.parametrize("story", PEACEFUL.values(), ids=PEACEFUL)
def test_calls_that_make_progress_are_no_loop(story):
    assert not is_loop(story)


def test_timings_in_codex_results_do_not_hide_a_loop():
    """Codex's shell tool puts an id and the duration above every output."""
    story = Story()
    for number in range(3):
        head = f"Chunk ID: 0a{number}f\nWall time: 0.05{number} seconds\nProcess exited with code 0\n"
        story.made("exec_command", {"cmd": "ls"}, {"result": f"{head}Output:\na.txt\n"})
    assert is_loop(story)


def test_numbers_in_gemini_cli_results_do_not_hide_a_loop():
    story = Story()
    for number in range(3):
        output = f"<untrusted_context>\nOutput: a.txt\nProcess Group PGID: 2153{number}\n</untrusted_context>"
        story.made("run_shell_command", {"command": "ls"}, {"output": output})
    assert is_loop(story)


def test_the_text_names_the_tool_and_not_its_arguments():
    text = decision_on(repeated(2, BAD, "reader", {"path": "/secret/place"})).text
    assert "reader" in text
    assert "/secret/place" not in text


def test_the_delivered_tools_that_poll_are_exempt_and_others_can_be_added():
    assert {"write_stdin", "wait", "TaskOutput"} <= set(DELIVERED.loop.polling)
    assert is_loop(repeated(3, GOOD, "watch"))
    assert not is_loop(repeated(3, GOOD, "watch"), GuardSettings(loop=LoopSettings(polling=("watch",))))


@pytest.mark.parametrize(("response", "field"), [(BAD, "failures"), (GOOD, "successes")])
@pytest.mark.parametrize("needed", [2, 3, 5, 8])
def test_the_number_of_identical_calls_is_a_setting(response, field, needed):
    chosen = GuardSettings(loop=LoopSettings(**{field: needed}))
    assert is_loop(repeated(needed, response), chosen)
    assert not is_loop(repeated(needed - 1, response), chosen)


# --- the window --------------------------------------------------------------------------------------


def steps(*names: str, result_of: Any = None) -> Story:
    story = Story()
    for name in names:
        story.made(name, {}, {"result": name} if result_of is None else {"result": result_of()})
    return story


ROUND = tuple("abcdefghij")


def with_other(number: int) -> tuple[str, ...]:
    """Return the sequence with this number of steps replaced."""
    return tuple(f"other{at}" if at < number else name for at, name in enumerate(ROUND))


@pytest.mark.parametrize("others", [0, 1, 2])
def test_ten_calls_of_which_eight_repeat_the_ten_before_are_a_loop(others):
    assert decision_on(steps(*ROUND, *with_other(others))).text.startswith(
        "[System] Detected an infinite loop"
    )


@pytest.mark.parametrize("others", [3, 4, 10])
def test_ten_calls_of_which_seven_repeat_the_ten_before_are_no_loop(others):
    assert not is_loop(steps(*ROUND, *with_other(others)))


@pytest.mark.parametrize("period", [2, 3, 4, 5, 6, 8, 9, 10])
def test_a_repeated_sequence_need_not_align_with_the_window(period):
    """With seven calls in the sequence, only seven of ten repeat, which is too few."""
    names = [ROUND[at % period] for at in range(20)]
    assert is_loop(steps(*names))


def test_nineteen_calls_do_not_fill_two_windows():
    assert not is_loop(steps(*ROUND, *ROUND[:9]))


def test_only_the_last_twenty_calls_count():
    assert is_loop(steps("x", "y", "z", *ROUND, *ROUND))
    assert not is_loop(steps(*ROUND, *ROUND, *with_other(10)))


def test_repeated_sequences_with_new_results_are_no_loop():
    numbers = count()
    assert not is_loop(steps(*ROUND, *ROUND, result_of=lambda: f"took step {next(numbers)}"))


def test_repeated_sequences_around_a_user_message_are_no_loop():
    story = steps(*ROUND).then("And again.")
    for name in ROUND:
        story.made(name, {}, {"result": name})
    assert not is_loop(story)


def test_window_size_and_share_are_settings():
    story = steps("a", "b", "c", "a", "b", "x")
    assert is_loop(story, GuardSettings(loop=LoopSettings(window=3, alike=0.6)))
    assert not is_loop(story, GuardSettings(loop=LoopSettings(window=3, alike=0.7)))
    assert not is_loop(story, GuardSettings(loop=LoopSettings(window=4, alike=0.6)))


# --- any input ---------------------------------------------------------------------------------------


def nested(levels: int, inmost: Any) -> Any:
    for _ in range(levels):
        inmost = [inmost]
    return {"a": inmost}


ODD = {
    "half a character": {"a": "\ud800"},
    "a number above all": {"a": 2**80},
    "no number": {"a": float("nan")},
    "nested beyond reason": nested(900, 1),
    "keys that are no texts": {1: {None: "x"}},
    "a set": {"a": {1, 2}},
    "an object": {"a": object()},
    "bytes": {"a": b"x"},
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_odd_values_never_raise(value):
    story = repeated(3, GOOD, args=value).made("g", {}, value)
    request = GenerateRequest("m", tuple(story.contents))
    assert LoopDetector(DELIVERED).on_request(request) is request


def test_values_that_cannot_be_compared_are_not_equal():
    story = Story()
    for number in range(12):
        story.made("f", nested(300, number), BAD)
        assert not is_loop(story)


def test_parts_of_every_kind_are_accepted():
    oddities = (Part(), Part(OtherData("future", {})), Part("", thought=True), Part(FunctionCall("")))
    contents = (
        Content(None, oddities),
        Content(MODEL, oddities),
        Content("function", oddities),
        Content(USER),
    )
    request = GenerateRequest("m", contents)
    assert LoopDetector(DELIVERED).on_request(request) is request


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=5,
)
ARGS = st.dictionaries(st.text(max_size=3), JSON, max_size=3)


def rewritten(value: Any) -> Any:
    """Return equal arguments in a different notation."""
    if isinstance(value, dict):
        return {key: rewritten(item) for key, item in reversed(value.items())}
    if isinstance(value, list):
        return [rewritten(item) for item in value]
    return f"\t{value} " if isinstance(value, str) else value


@ANY_SPEED
@given(ARGS)
def test_differently_written_equal_arguments_are_the_same_call(args):
    assert is_loop(Story().made("f", args, BAD).made("f", rewritten(args), BAD))


@ANY_SPEED
@given(st.lists(st.sampled_from("abcde"), max_size=30))
def test_calls_that_never_repeat_a_result_are_never_a_loop(names):
    numbers = count()
    assert not is_loop(steps(*names, result_of=lambda: next(numbers)))
