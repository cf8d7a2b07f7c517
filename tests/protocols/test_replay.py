"""The output for transcripts: the page of `make replay`, and the message of a failing test."""

from __future__ import annotations

import pytest
import replay
from first_difference import NOTHING, first_difference
from transcripts import FOLDER, NAMES, VARIANTS

LABELS = [told.label for told in VARIANTS]


def recorded(name, label):
    return (FOLDER / name / f"{label}.sse").read_text()


def section(page, heading):
    return page.split(f"\n{heading}\n")[1].split("\n\n")[0].splitlines()


def difference(before, now):
    message = first_difference(before, now, name="plain_text", label="openai_chat")
    assert message is not None
    return message.splitlines()


def test_the_page_shows_chunks_steps_and_events_in_their_order():
    page = replay.replayed("plain_text", "anthropic_messages")
    assert page.startswith("plain_text: Text in several chunks is one message")
    assert section(page, "UPSTREAM")[1].startswith('  chunk 1   {"candidates":[{"content"')
    assert section(page, "STEPS") == [
        "  chunk 0   TurnStarted",
        "            RunOpened candidate=0 run=0 kind=TEXT part=None",
        "            TextAdded candidate=0 run=0 kind=TEXT text='Hello'",
        "  chunk 1   TextAdded candidate=0 run=0 kind=TEXT text=', wor'",
        "  chunk 2   TextAdded candidate=0 run=0 kind=TEXT text='ld.'",
        "  end       RunClosed candidate=0 run=0 kind=TEXT "
        "parts=(Part(data='Hello, world.', thought=False, signature=None, extra={}),) last=True",
        "            TurnEnded candidate 0 COMPLETE, "
        'usage {"promptTokenCount":7,"candidatesTokenCount":5,"totalTokenCount":12}',
    ]
    events = section(page, "EVENTS anthropic_messages")
    assert [line[:36].rstrip() for line in events] == [
        '  chunk 0     0 message_start  {"typ',
        "              1 content_block_start",
        "              2 content_block_delta",
        "  chunk 1     3 content_block_delta",
        "  chunk 2     4 content_block_delta",
        "  end         5 content_block_stop",
        '              6 message_delta  {"typ',
        '              7 message_stop  {"type',
    ]


def test_protocols_with_different_steps_have_separate_lists():
    page = replay.replayed("two_candidates")
    headings = [line for line in page.splitlines() if line.startswith("STEPS")]
    assert len(headings) > 1
    assert "openai_chat" in headings[0]
    assert "anthropic_messages" not in headings[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_transcript_can_be_shown_for_every_protocol(name):
    page = replay.replayed(name)
    assert [line[7:] for line in page.splitlines() if line.startswith("EVENTS ")] == LABELS


def test_long_lines_are_truncated_by_default(capsys):
    longest = []
    for options in ([], ["--full"]):
        assert replay.main(["large_arguments", "--protocol", "openai_chat", *options]) == 0
        longest.append(max(map(len, capsys.readouterr().out.splitlines())))
    assert longest[0] < replay.WIDTH + 30 < longest[1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["plan_text"], "No transcript is called 'plan_text'. The nearest: plain_text, "),
        (["zzzz"], "No transcript is called 'zzzz'. There are: blocked_prompt, "),
        (["plain_text", "--protocol", "chat"], "No protocol is called 'chat'. There are: openai_chat, "),
    ],
)
def test_an_unknown_name_lists_the_known_names(capsys, arguments, told):
    assert replay.main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(told)
    assert printed.out == ""


def test_equal_streams_have_no_difference():
    stream = recorded("plain_text", "openai_chat")
    assert first_difference(stream, stream, name="plain_text", label="openai_chat") is None


def test_a_changed_event_is_shown_with_its_number_and_context():
    before = recorded("plain_text", "openai_chat")
    lines = difference(before, before.replace("ld.", "lt.").replace('"stop"', '"length"'))
    assert lines[0] == "plain_text, openai_chat: event 3 differs (7 events are recorded, 7 came)"
    assert [line[:10] for line in lines[1:8]] == [
        *("       0  ", "       1  ", "       2  "),
        *("  -    3  ", "  +    3  ", "  -    4  ", "  +    4  "),
    ]
    assert '"content":"ld."' in lines[4]
    assert '"content":"lt."' in lines[5]
    assert lines[8].startswith("the first different character: ")
    assert "ld." in lines[8]
    assert lines[9:] == ["replay it: make replay NAME=plain_text PROTOCOL=openai_chat"]


def test_a_stream_that_stops_early_or_goes_on_shows_what_is_missing():
    before = recorded("plain_text", "openai_chat")
    short = before.removesuffix("data: [DONE]\n\n")
    assert difference(before, short)[4:6] == ["  -    6  data: [DONE]", "  +    6  (nothing)"]
    longer = difference(before, before + "data: more\n\n")
    assert longer[4:6] == ["  -    7  (nothing)", "  +    7  data: more"]
    assert f"  +    7  {NOTHING}" in difference(before, before.removesuffix("\n\n"))
