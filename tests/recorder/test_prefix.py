"""The comparison of a request with the one before it in its conversation."""

from __future__ import annotations

from bridge.recorder.prefix import prefix_line

A, B, C = ({"role": "user", "parts": [{"text": text}]} for text in "abc")


def compared(before, now):
    line = prefix_line("flight_0", [{"stage": "gemini-request", "body": before}], {"body": now})
    assert line is not None
    return line


def test_a_request_that_continues_the_one_before_has_no_different_turn():
    line = compared({"contents": [A, B]}, {"contents": [A, B, C]})
    assert (line["same_turns"], line["first_different_turn"], line["changed"]) == (2, None, [])


def test_the_first_turn_that_differs_is_named():
    assert compared({"contents": [A, B, C]}, {"contents": [A, C, C, A]})["first_different_turn"] == 2


def test_a_shortened_history_differs_where_it_ends():
    assert compared({"contents": [A, B, C]}, {"contents": [A, B]})["first_different_turn"] == 3


def test_changed_tools_and_instructions_are_named():
    line = compared({"contents": [A], "tools": [1]}, {"contents": [A], "tools": [2], "systemInstruction": A})
    assert line["changed"] == ["tools", "systemInstruction"]


def test_a_flight_that_sent_nothing_is_not_compared():
    assert prefix_line("flight_0", [{"stage": "summary"}], {"body": {"contents": []}}) is None
