"""Summaries in any history: what they replace, what stays, and how they are found again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from gemini_rules import broken_rules, calls, responses
from hypothesis import given
from hypothesis import strategies as st

from bridge.context.digests import turn_digests
from bridge.context.estimate import text_tokens
from bridge.context.history import KnownSummary
from bridge.context.ladder import Fitted, fits, shorten
from bridge.context.leading_turns import LeadingTurns
from bridge.context.summary import Summary, kept_first, next_cut, turns_to_summarise
from bridge.context.summary_task import SummaryTask, problem_of, summary_request
from bridge.context.transcript import transcript
from bridge.gemini.finish import Outcome
from bridge.gemini.summary_part import END, START, marked
from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    Part,
    Tool,
)
from bridge.settings.context import ContextSettings
from tests.context.histories import conversations, requests_of
from tests.context.test_ladder import LIMITS, history, window

SETTINGS = ContextSettings(least_saved=0)
STEPS = (Summary(SETTINGS), LeadingTurns(SETTINGS))
TEXT = "## Goal\nGo on."


class Summariser:
    """What the exchange layer does: look up what exists, write what is missing, run the ladder again."""

    def __init__(self) -> None:
        self.made: dict[bytes, str] = {}
        self.cuts: list[int] = []
        self.next: int | None = None  #: where the next summary could end

    def shortened(self, contents: Sequence[Content], limit: int) -> Fitted:
        found, room = history(contents), replace(window(limit), least_saved=0)
        digests = turn_digests(GenerateRequest("m", ()), found.turns, "me")
        while True:
            known = [
                KnownSummary(at, self.made[each]) for at, each in enumerate(digests) if each in self.made
            ]
            found = replace(found, summaries=tuple(known))
            fitted = shorten(found, room, STEPS)
            cut = self.next = next_cut(found, room, SETTINGS)
            if cut is None or (fits(fitted.history, room) and not _dropped(fitted.taken)):
                return fitted
            self.cuts.append(cut)
            assert found.is_opening(cut)
            assert turns_to_summarise(found, cut, SETTINGS)
            self.made[digests[cut]] = f"{TEXT} {cut}"


def _dropped(taken) -> bool:
    return any(step.name == LeadingTurns.name for step in taken)


@given(conversations(), LIMITS)
def test_no_pair_is_split(contents, limit):
    turns = Summariser().shortened(contents, limit).history.turns
    assert broken_rules(turns, prefill=False) == []
    for turn, following in pairwise(turns):
        assert [call.id for call in calls(turn)] == [each.id for each in responses(following)]


@given(conversations(), LIMITS)
def test_a_request_begins_like_the_one_before_unless_a_summary_or_the_grid_moved(contents, limit):
    summariser, grid, room = Summariser(), window(limit).grid, window(limit).room
    for before, after in pairwise(requests_of(contents)):
        earlier, cuts = summariser.shortened(before, limit), len(summariser.cuts)
        is_last = summariser.next is None
        later = summariser.shortened(after, limit)
        moved = (history(before).length - 1) // grid != (history(after).length - 1) // grid
        written = cuts < len(summariser.cuts)
        began = not earlier.taken and later.taken
        tight = earlier.history.tokens + history(before).until_next_move(grid) > room
        if not (moved or written or began or (earlier.taken and tight and is_last)):
            turns = earlier.history.turns
            assert later.history.turns[: len(turns)] == turns


@given(conversations(), LIMITS)
def test_the_running_tool_loop_is_never_summarised(contents, limit):
    found = history(contents)
    last = max(at for at in range(len(found.turns)) if found.is_opening(at))
    cut = next_cut(found, replace(window(limit), least_saved=0), SETTINGS)
    assert cut is None or cut <= last


@given(conversations(), st.integers(0, 6))
def test_the_first_turns_stay(contents, most):
    turns = history(contents).turns
    start = kept_first(turns, most)
    assert start <= max(most, 0)
    assert not calls(turns[start - 1]) if start else most == 0


def test_a_dropped_turn_keeps_its_summary():
    said = Content(USER, (Part(marked("All is well.")), Part("word " * 2000)))
    found = history([said, Content(MODEL, (Part("Yes."),)), Content(USER, (Part("word " * 20),)), *_end()])
    found = replace(found, carried=(said.parts[0],))
    turns = LeadingTurns(SETTINGS).apply(found, window(1024)).history.turns
    assert turns[0].parts[0] == said.parts[0]
    assert "removed" in str(turns[0].parts[1].data)


def _end() -> list[Content]:
    return [Content(MODEL, (Part("Done."),)), Content(USER, (Part("And now?"),))]


# --- digests -----------------------------------------------------------------------------------------


def _turns(call_id: str, signature: str | None, *texts: str) -> list[Content]:
    call = Part(FunctionCall("run", {"b": 1, "a": 2}, call_id), signature=signature)
    thought = [Part("Hm.", thought=True)] if signature else []
    return [
        Content(USER, tuple(map(Part, texts))),
        Content(MODEL, (*thought, call)),
        Content(USER, (Part(FunctionResponse("run", {"result": "x"}, call_id)),)),
    ]


def test_a_digest_covers_what_was_said_and_not_how_it_was_sent():
    request = GenerateRequest("m", ())
    one = turn_digests(request, _turns("c1", "sig", "Hello ", "there."), "me")
    assert turn_digests(request, _turns("c2", None, "Hello there."), "me") == one
    assert len(one) == 4
    assert one[1] != turn_digests(request, _turns("c1", "sig", "Hello where?"), "me")[1]


def test_a_digest_depends_on_owner_instruction_tools_and_everything_before():
    turns = _turns("c1", None, "Hello.")
    tool = Tool((FunctionDeclaration("run"), FunctionDeclaration("look")))
    turned = Tool((FunctionDeclaration("look"), FunctionDeclaration("run")))
    system = Content(None, (Part("Be brief."),))
    requests = [
        GenerateRequest("m", ()),
        GenerateRequest("m", (), system=system),
        GenerateRequest("m", (), tools=(tool,)),
    ]
    digests = [turn_digests(each, turns, owner)[-1] for each in requests for owner in ("a", "b")]
    assert len(set(digests)) == 6
    assert turn_digests(GenerateRequest("m", (), tools=(turned,)), turns, "a")[-1] in digests
    changed = [Content(USER, (Part("Another."),)), *turns[1:]]
    assert turn_digests(requests[0], changed, "a")[-1] not in digests


@given(conversations())
def test_a_fork_shares_the_digests_up_to_its_place(contents):
    turns = history(contents).turns
    other = [*turns[:-1], Content(USER, (Part("Another way."),))]
    request = GenerateRequest("m", ())
    assert turn_digests(request, other, "me")[:-1] == turn_digests(request, turns, "me")[:-1]


# --- the request for a summary -----------------------------------------------------------------------


@given(conversations(), st.integers(300, 5000))
def test_a_transcript_fits_and_keeps_its_first_line(contents, room):
    written = transcript(contents, room)
    assert text_tokens(written) <= room + 400
    assert written.split("\n")[0].startswith('{"role":"user"')


def test_an_earlier_summary_is_never_dropped_from_the_transcript():
    turns = [Content(USER, (Part(marked("Kept.")),)), *[Content(MODEL, (Part("word " * 90),))] * 60]
    assert START in transcript(turns, 500)


def _task(**more) -> SummaryTask:
    return SummaryTask(b"d", (Content(USER, (Part("word " * 1000),)),), ("run",), 1000, **more)


def test_a_summary_is_checked():
    assert problem_of("short", Outcome.COMPLETE, _task()) == ""
    assert problem_of(" \n", Outcome.COMPLETE, _task())
    assert problem_of("short", Outcome.LENGTH, _task())
    assert problem_of("word " * 799, Outcome.COMPLETE, _task()) == ""
    assert problem_of("word " * 810, Outcome.COMPLETE, _task())


def test_the_request_names_the_tools_and_declares_none():
    asked = summary_request(_task(), "flash", 5000)
    assert asked.tools == ()
    assert asked.store is False
    assert "tools: run." in str(asked.contents[0].parts[1].data)


def test_marks_inside_a_summary_are_removed():
    assert marked(f"a {END} b {START} c") == f"{START}\na  b  c\n{END}"
