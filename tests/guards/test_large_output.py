"""A large tool result reaches Gemini as its start and its end."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    OtherData,
    Part,
)
from bridge.guards.large_output import LargeOutput, truncate
from bridge.settings import PROJECT
from bridge.settings import guards as guard_settings

ANY_SPEED = settings(deadline=None)
MOST = 1000
SMALL = guard_settings.GuardSettings(large_output=guard_settings.LargeOutputSettings(MOST))
MARK = re.compile(r"\[… (\d+) characters in (\d+) lines left out …\]")
LINES = "".join(f"line {number}\n" for number in range(2000))
GIANT = "x" * 50_000


def asked(*parts: Part) -> GenerateRequest:
    return GenerateRequest("gemini-test", (Content(USER, (Part("Look."),)), Content(USER, parts)))


def answered(response: Any, **fields: Any) -> Part:
    return Part(FunctionResponse("f", response, "c1", **fields))


def guarded(response: Any) -> Any:
    """Return the response after the guard."""
    request = LargeOutput(SMALL).on_request(asked(answered(response)))
    return request.contents[1].parts[0].data.response


def pieces(text: str) -> tuple[str, str, int, int]:
    """Return the kept start and end, and the removed amount that the mark reports."""
    mark = MARK.search(text)
    return text[: mark.start()], text[mark.end() :], int(mark[1]), int(mark[2])


# --- one text ----------------------------------------------------------------------------------------


def test_the_default_limit_is_fifty_thousand_characters():
    delivered = guard_settings.load_guards(PROJECT / "config" / "guards.toml")
    assert delivered.large_output.most_characters == 50_000
    assert delivered.modes.large_output == "enforce"


@pytest.mark.parametrize("size", [0, 1, MOST - 1, MOST])
def test_a_text_up_to_the_limit_is_the_same_object(size):
    text = "x" * size
    assert truncate(text, MOST) is text


@pytest.mark.parametrize("size", [MOST + 1, MOST + 50, 2 * MOST, 100 * MOST])
@pytest.mark.parametrize("unit", ["x", "line\n", "ünï\n", "\n", "\r\n"])
def test_a_text_above_the_limit_is_truncated(size, unit):
    text = unit * (size // len(unit) + 1)
    left = truncate(text, MOST)
    assert MARK.search(left)
    assert len(left) <= MOST


def test_truncation_keeps_the_first_fifth_and_the_end_in_whole_lines():
    head, tail, characters, lines = pieces(truncate(LINES, MOST))
    assert LINES.startswith(head)
    assert head.endswith("\n")
    assert 0.15 * MOST < len(head) <= 0.2 * MOST
    tail = tail.removeprefix("\n")
    assert LINES.endswith("\n" + tail)
    assert 0.6 * MOST < len(tail) <= 0.8 * MOST
    assert characters == len(LINES) - len(head) - len(tail)
    assert lines == 2000 - head.count("\n") - tail.count("\n")


def test_one_giant_line_is_truncated_in_the_middle():
    head, tail, characters, lines = pieces(truncate(GIANT, MOST))
    assert head.count("x") == MOST / 5
    assert tail.count("x") > 0.6 * MOST
    assert characters == len(GIANT) - head.count("x") - tail.count("x")
    assert lines == 0


@pytest.mark.parametrize(
    "text",
    [
        GIANT + "\nend",
        GIANT + "\n\n",
        GIANT + "\n",
        "begin\n" + GIANT,
        "begin\n" + GIANT + "\nend\n",
        GIANT + "\n" + "y" * 300,
    ],
    ids=[
        "a short last line",
        "blank lines",
        "a line end",
        "a short first line",
        "both",
        "a longer last line",
    ],
)
def test_a_giant_line_does_not_displace_short_lines(text):
    assert len(truncate(text, MOST)) > MOST / 2


def test_the_truncation_mark_is_on_its_own_line():
    for text in (LINES, GIANT):
        assert [line for line in truncate(text, MOST).split("\n") if MARK.fullmatch(line)]


@pytest.mark.parametrize("text", [LINES, GIANT, GIANT + "\nend", "\n" * 5000], ids=len)
def test_truncation_is_idempotent(text):
    once = truncate(text, MOST)
    assert truncate(once, MOST) is once


TEXTS = st.lists(
    st.builds(lambda letter, times: letter * times, st.sampled_from("ab\n\ré漢😀"), st.integers(1, 400)),
    max_size=20,
).map("".join)


@ANY_SPEED
@given(TEXTS, st.integers(MOST, 3000))
def test_a_truncated_text_is_a_bounded_start_and_end_of_the_text(text, most):
    left = truncate(text, most)
    if len(text) <= most:
        assert left is text
        return
    assert len(left) <= most
    before, behind, characters, lines = pieces(left)
    heads = {before, before.removesuffix("\n")}
    tail = behind.removeprefix("\n")
    assert text.endswith(tail)
    missing = [text[len(head) : len(text) - len(tail)] for head in heads if text.startswith(head)]
    assert (characters, lines) in [(len(each), each.count("\n")) for each in missing]


@ANY_SPEED
@given(TEXTS, st.integers(MOST, 3000))
def test_any_text_is_truncated_at_most_once(text, most):
    once = truncate(text, most)
    assert truncate(once, most) is once


# --- inside a request --------------------------------------------------------------------------------

NESTED: dict[str, Any] = {
    "a plain field": {"result": LINES},
    "the output of a shell": {"status": "success", "stdout": LINES},
    "an object in an object": {"a": {"b": {"c": LINES}}},
    "a list": {"files": ["a", LINES, "b"]},
    "objects in lists": {"a": [[{"b": LINES}], 1, None]},
}


@pytest.mark.parametrize("response", NESTED.values(), ids=NESTED)
def test_a_long_text_is_truncated_in_every_field(response):
    def expected(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: expected(item) for key, item in value.items()}
        if isinstance(value, list):
            return [expected(item) for item in value]
        return truncate(value, MOST) if isinstance(value, str) else value

    left = guarded(response)
    assert left == expected(response)
    assert left != response


def test_many_short_texts_together_are_truncated():
    left = guarded({"rows": [f"row {number} " + "x" * 90 for number in range(1000)]})
    assert len(str(left)) < 2 * MOST
    assert left["rows"][0].startswith("row 0 ")
    assert left["rows"][-1].startswith("row 999 ")


LONG_TOGETHER: dict[str, Any] = {
    "objects in a list": {"items": [{"number": number, "text": "x" * 50} for number in range(1000)]},
    "two texts": {"a": "x" * MOST, "b": "y" * MOST},
    "lists of numbers": {"a": [list(range(100)) for _ in range(100)]},
    "a key": {GIANT: 1},
}


@pytest.mark.parametrize("response", LONG_TOGETHER.values(), ids=LONG_TOGETHER)
def test_a_long_object_is_truncated_as_json_text(response):
    left = guarded(response)
    assert list(left) == ["result"]
    assert len(left["result"]) <= MOST
    assert left["result"].startswith('{\n  "')
    assert left["result"].endswith("\n}")
    assert pieces(left["result"])[2] > MOST
    assert guarded(left) == left


SHORT: dict[str, Any] = {
    "nothing": {},
    "a text within the limit, and a little around it": {"status": "success", "a": "x" * MOST, "bytes": MOST},
    "texts within the limit": {"a": "x" * (MOST // 2), "b": ["y" * (MOST // 2)]},
    "numbers and nothing": {"a": 10**300, "b": None, "c": True, "d": 1.5},
}


@pytest.mark.parametrize("response", SHORT.values(), ids=SHORT)
def test_a_request_without_long_results_is_the_same_object(response):
    request = asked(answered(response))
    assert LargeOutput(SMALL).on_request(request) is request


def test_a_history_without_results_is_the_same_object():
    request = GenerateRequest("m", ())
    assert LargeOutput(SMALL).on_request(request) is request


def test_only_results_are_truncated():
    others = (
        Part(GIANT),
        Part(GIANT, thought=True, signature="s"),
        Part(FunctionCall("f", {"a": GIANT}, "c1")),
        Part(InlineData("image/png", GIANT)),
        Part(FileData(GIANT)),
        Part(OtherData("future", GIANT)),
        Part(),
    )
    system = Content(USER, (Part(GIANT),))
    request = replace(asked(*others), system=system)
    assert LargeOutput(SMALL).on_request(request) is request


def test_other_fields_of_a_truncated_result_are_kept():
    media = (InlineData("image/png", GIANT), FileData("gs://x"))
    full = Part(
        FunctionResponse("f", {"a": LINES, "n": 1}, "c1", media, {"willContinue": False}),
        signature="signed",
        extra={"future": [1]},
    )
    neighbours = (Part("before"), full, Part("behind"))
    request = asked(*neighbours)
    left = LargeOutput(SMALL).on_request(request)
    assert left.contents[0] is request.contents[0]
    before, part, behind = left.contents[1].parts
    assert (before, behind) == (neighbours[0], neighbours[2])
    expected = replace(full.data, response={"a": truncate(LINES, MOST), "n": 1})
    assert part == replace(full, data=expected)


def test_the_clients_request_is_not_modified():
    response = {"a": [LINES]}
    guarded(response)
    assert response == {"a": [LINES]}


def test_truncating_a_request_is_idempotent():
    guard = LargeOutput(SMALL)
    once = guard.on_request(asked(answered({"a": LINES, "b": [GIANT]}), Part(FunctionCall("f"))))
    assert guard.on_request(once) is once


def test_extreme_nesting_does_not_raise():
    response: Any = LINES
    for _ in range(5000):
        response = [response]
    request = GenerateRequest("m", (Content(MODEL, (answered({"a": response}),)),))
    assert LargeOutput(SMALL).on_request(request) is request


RESPONSES = st.dictionaries(
    st.text(max_size=3),
    st.recursive(TEXTS | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=4),
    max_size=3,
)


@ANY_SPEED
@given(RESPONSES)
def test_any_response_is_truncated_at_most_once(response):
    guard = LargeOutput(SMALL)
    once = guard.on_request(asked(answered(response)))
    assert guard.on_request(once) is once
