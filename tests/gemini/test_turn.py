"""Gemini's chunks become steps: runs, signatures, candidates, and every ending."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.errors import UpstreamMalformed, UpstreamTruncated
from bridge.gemini.finish import FinishReason, Outcome, outcome_of
from bridge.gemini.turn import (
    Ending,
    MetadataReceived,
    PartSigned,
    RunClosed,
    RunKind,
    RunOpened,
    Step,
    TextAdded,
    Turn,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from bridge.gemini.types import (
    MODEL,
    Candidate,
    Chunk,
    Content,
    FileData,
    FunctionCall,
    InlineData,
    OtherData,
    Part,
    Usage,
)

CALL = Part(FunctionCall("f", {"a": 1}, "1"))
OTHER_CALL = Part(FunctionCall("g", None, "2"), signature="s")
PICTURE = Part(InlineData("image/png", "AAAA"))
CODE = Part(OtherData("executableCode", {"code": "1"}))

GOOD_ENDS = [reason for reason in FinishReason if outcome_of(reason) is not Outcome.BROKEN]
BAD_ENDS = [
    *(reason.value for reason in FinishReason if outcome_of(reason) is Outcome.BROKEN),
    "INVENTED_TOMORROW",
]


def chunk(*parts: Part | str, reason: str | None = None, number: int | None = None) -> Chunk:
    content = Content(MODEL, tuple(part if isinstance(part, Part) else Part(part) for part in parts))
    return Chunk((Candidate(content if parts else None, reason, number),))


def steps_of(chunks: Iterable[Chunk], most: int = 1) -> list[Step]:
    turn = Turn(most)
    steps = [step for one in chunks for step in turn.feed(one)]
    return [*steps, *turn.finish()]


def thought(text: str, signature: str | None = None) -> Part:
    return Part(text, thought=True, signature=signature)


def opened(run: int, kind: RunKind, part: Part | None = None) -> RunOpened:
    return RunOpened(0, run, kind, part)


def ended(
    outcome: Outcome = Outcome.COMPLETE, *, called: bool = False, usage: Usage | None = None
) -> TurnEnded:
    return TurnEnded((Ending(0, outcome, called),), usage or Usage())


# --- runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", BAD_ENDS)
def test_with_any_reason_every_finish_reason_ends_the_turn(reason: str) -> None:
    turn = Turn(any_finish_reason_ends=True)
    turn.feed(chunk("Half.", reason=reason))
    *_, ended = turn.finish()
    assert isinstance(ended, TurnEnded)
    assert ended.endings == (Ending(0, Outcome.BROKEN, called=False),)


def test_with_any_reason_a_missing_finish_reason_is_a_truncation() -> None:
    turn = Turn(any_finish_reason_ends=True)
    turn.feed(chunk("Half."))
    (failed,) = turn.finish()
    assert isinstance(failed, TurnFailed)
    assert isinstance(failed.error, UpstreamTruncated)


def test_neighbouring_texts_are_one_run() -> None:
    assert steps_of([chunk("Hel"), chunk("lo", "!"), chunk(reason="STOP")]) == [
        TurnStarted(),
        opened(0, RunKind.TEXT),
        TextAdded(0, 0, RunKind.TEXT, "Hel"),
        TextAdded(0, 0, RunKind.TEXT, "lo"),
        TextAdded(0, 0, RunKind.TEXT, "!"),
        RunClosed(0, 0, RunKind.TEXT, (Part("Hello!"),), last=True),
        ended(),
    ]


def test_a_thought_ends_where_the_answer_begins() -> None:
    assert steps_of([chunk(thought("Hm"), thought(".")), chunk("So", reason="STOP")]) == [
        TurnStarted(),
        opened(0, RunKind.THOUGHT),
        TextAdded(0, 0, RunKind.THOUGHT, "Hm"),
        TextAdded(0, 0, RunKind.THOUGHT, "."),
        RunClosed(0, 0, RunKind.THOUGHT, (thought("Hm."),)),
        opened(1, RunKind.TEXT),
        TextAdded(0, 1, RunKind.TEXT, "So"),
        RunClosed(0, 1, RunKind.TEXT, (Part("So"),), last=True),
        ended(),
    ]


def test_each_call_is_a_whole_run() -> None:
    assert steps_of([chunk("a"), chunk(CALL), chunk(OTHER_CALL), chunk(reason="STOP")]) == [
        TurnStarted(),
        opened(0, RunKind.TEXT),
        TextAdded(0, 0, RunKind.TEXT, "a"),
        RunClosed(0, 0, RunKind.TEXT, (Part("a"),)),
        opened(1, RunKind.CALL, CALL),
        RunClosed(0, 1, RunKind.CALL, (CALL,)),
        opened(2, RunKind.CALL, OTHER_CALL),
        PartSigned(0, 2, RunKind.CALL, "s"),
        RunClosed(0, 2, RunKind.CALL, (OTHER_CALL,)),
        ended(called=True),
    ]


@pytest.mark.parametrize(
    "part", [PICTURE, CODE, Part(FileData("gs://b/o")), Part(None, extra={"newField": {}})]
)
def test_other_parts_are_whole_runs(part: Part) -> None:
    assert steps_of([chunk(part, reason="STOP")]) == [
        TurnStarted(),
        opened(0, RunKind.OTHER, part),
        RunClosed(0, 0, RunKind.OTHER, (part,)),
        ended(),
    ]


def test_text_after_a_call_opens_a_new_run() -> None:
    kinds = [
        step.kind for step in steps_of([chunk("a", CALL, "b", reason="STOP")]) if isinstance(step, RunOpened)
    ]
    assert kinds == [RunKind.TEXT, RunKind.CALL, RunKind.TEXT]


@pytest.mark.parametrize("part", [Part(""), thought(""), Part(), Part(thought=True)])
def test_an_empty_part_opens_no_run(part: Part) -> None:
    without = steps_of([chunk("a"), chunk("b", reason="STOP")])
    assert steps_of([chunk(part), chunk("a", part), chunk(part, "b", reason="STOP")]) == without


def test_an_empty_text_with_unknown_fields_is_not_lost() -> None:
    odd = Part("", extra={"newField": 1})
    assert said(steps_of([chunk("a", odd, reason="STOP")])) == [Part("a"), odd]


def test_text_with_unknown_fields_is_a_separate_run() -> None:
    odd = Part("b", extra={"newField": 1})
    assert said(steps_of([chunk("a", odd, "c", reason="STOP")])) == [Part("a"), odd, Part("c")]


# --- signatures --------------------------------------------------------------------------------------


def test_a_signed_text_is_never_joined_with_another() -> None:
    first, second = Part("b", signature="1"), Part("c", signature="2")
    steps = steps_of([chunk("a"), chunk(first), chunk(second), chunk("d"), chunk("e", reason="STOP")])
    (closed,) = [step for step in steps if isinstance(step, RunClosed)]
    assert closed.parts == (Part("a"), first, second, Part("de"))
    assert [step.signature for step in steps if isinstance(step, PartSigned)] == ["1", "2"]


def test_an_empty_signed_text_belongs_to_the_run_before_it() -> None:
    signature = Part("", signature="s")
    assert steps_of([chunk("a"), chunk(signature, reason="STOP")]) == [
        TurnStarted(),
        opened(0, RunKind.TEXT),
        TextAdded(0, 0, RunKind.TEXT, "a"),
        PartSigned(0, 0, RunKind.TEXT, "s"),
        RunClosed(0, 0, RunKind.TEXT, (Part("a"), signature), last=True),
        ended(),
    ]


def test_an_empty_signed_thought_after_the_text_is_a_run_without_text() -> None:
    signature = thought("", "s")
    steps = steps_of([chunk("a"), chunk(signature, reason="STOP")])
    assert steps[3:6] == [
        RunClosed(0, 0, RunKind.TEXT, (Part("a"),)),
        opened(1, RunKind.THOUGHT),
        PartSigned(0, 1, RunKind.THOUGHT, "s"),
    ]


def test_a_signature_does_not_make_a_text_a_thought() -> None:
    kinds = [
        step.kind
        for step in steps_of([chunk(Part("a", signature="s"), reason="STOP")])
        if isinstance(step, TextAdded)
    ]
    assert kinds == [RunKind.TEXT]


# --- candidates --------------------------------------------------------------------------------------


def test_candidates_have_separate_runs_and_endings() -> None:
    both = Chunk((Candidate(Content(MODEL, (Part("a"),))), Candidate(Content(MODEL, (CALL,)), "STOP", 1)))
    steps = steps_of([both, chunk("b", reason="MAX_TOKENS", number=0)], most=2)
    assert said(steps, 0) == [Part("ab")]
    assert said(steps, 1) == [CALL]
    assert steps[-1] == TurnEnded(
        (Ending(0, Outcome.LENGTH, called=False), Ending(1, Outcome.COMPLETE, called=True)), Usage()
    )


def test_unrequested_candidates_are_ignored() -> None:
    chunks = [chunk("a", number=0), chunk("x", reason="SAFETY", number=1), chunk(reason="STOP", number=0)]
    assert steps_of(chunks, most=1) == steps_of([chunks[0], chunks[2]])


def test_endings_are_in_the_order_of_the_candidates() -> None:
    chunks = [chunk("b", reason="STOP", number=1), chunk("a", reason="STOP", number=0)]
    last = steps_of(chunks, most=2)[-1]
    assert isinstance(last, TurnEnded)
    assert [ending.candidate for ending in last.endings] == [0, 1]


def test_one_candidate_that_fails_fails_the_turn() -> None:
    last = steps_of([chunk("a", reason="STOP"), chunk("b", number=1)], most=2)[-1]
    assert isinstance(last, TurnFailed)
    assert isinstance(last.error, UpstreamTruncated)


def test_other_candidate_fields_are_noted_for_their_candidate() -> None:
    notes = {"groundingMetadata": {"a": 1}}
    steps = steps_of([Chunk((Candidate(None, "STOP", 1, notes),)), chunk(reason="STOP", number=0)], most=2)
    assert MetadataReceived(1, notes) in steps


# --- the end -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", GOOD_ENDS)
@pytest.mark.parametrize("parts", [(), ("a",), (CALL,)])
def test_a_normal_finish_reason_ends_the_turn(reason: FinishReason, parts: Sequence[Part | str]) -> None:
    last = steps_of([chunk(*parts), chunk(reason=reason.value)])[-1]
    assert last == ended(outcome_of(reason), called=parts == (CALL,))


@pytest.mark.parametrize("reason", BAD_ENDS)
@pytest.mark.parametrize("parts", [(), ("a",), (thought("a"),)])
def test_a_failing_finish_reason_fails_the_turn_and_is_named(
    reason: str, parts: Sequence[Part | str]
) -> None:
    last = steps_of([chunk(*parts), chunk(reason=reason)])[-1]
    assert isinstance(last, TurnFailed)
    assert isinstance(last.error, UpstreamMalformed)
    assert reason in last.error.message


@pytest.mark.parametrize("reason", BAD_ENDS)
def test_a_failing_finish_reason_after_a_call_keeps_the_call(reason: str) -> None:
    assert steps_of([chunk(CALL), chunk(reason=reason)])[-1] == ended(Outcome.BROKEN, called=True)


@pytest.mark.parametrize(
    "chunks",
    [[], [Chunk()], [Chunk(usage=Usage({"promptTokenCount": 1}))], [chunk()], [chunk("a")], [chunk(CALL)]],
)
def test_a_missing_finish_reason_is_a_truncation(chunks: list[Chunk]) -> None:
    last = steps_of(chunks)[-1]
    assert isinstance(last, TurnFailed)
    assert isinstance(last.error, UpstreamTruncated)


def test_a_run_of_a_truncated_stream_is_not_closed() -> None:
    assert not any(isinstance(step, RunClosed) for step in steps_of([chunk("Once upon")]))


def test_the_last_finish_reason_wins() -> None:
    assert steps_of([chunk(reason="STOP"), chunk("a", reason="MAX_TOKENS")])[-1] == ended(Outcome.LENGTH)


def test_the_last_usage_wins_even_after_the_finish_reason() -> None:
    first, last = Usage({"promptTokenCount": 1}), Usage({"promptTokenCount": 2})
    chunks = [replace(chunk("a", reason="STOP"), usage=first), Chunk(usage=last), Chunk()]
    assert steps_of(chunks)[-1] == ended(usage=last)


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "PROHIBITED_CONTENT", "INVENTED_TOMORROW"])
def test_a_blocked_prompt_is_a_filtered_answer(reason: str) -> None:
    assert steps_of([Chunk(prompt_feedback={"blockReason": reason})]) == [
        TurnStarted(),
        ended(Outcome.FILTERED),
    ]


@pytest.mark.parametrize("feedback", [{}, {"safetyRatings": []}, {"blockReason": None}])
def test_feedback_that_blocks_nothing_changes_nothing(feedback: dict[str, object]) -> None:
    answered = replace(chunk("a", reason="STOP"), prompt_feedback=feedback)
    assert steps_of([answered]) == steps_of([chunk("a", reason="STOP")])
    assert isinstance(steps_of([Chunk(prompt_feedback=feedback)])[-1], TurnFailed)


def test_the_turn_begins_once_with_the_first_chunk() -> None:
    assert steps_of([Chunk(), chunk("a", reason="STOP")]).count(TurnStarted()) == 1
    assert TurnStarted() not in steps_of([])


# --- any answer --------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["", "a", " ", "bc", "\n"])
SIGNATURES = st.sampled_from([None, None, "s", "t"])
PARTS = st.one_of(
    st.builds(Part, TEXTS, st.booleans(), SIGNATURES),
    st.builds(Part, TEXTS.filter(bool), st.booleans(), SIGNATURES, st.just({"newField": 1})),
    st.sampled_from([CALL, OTHER_CALL, PICTURE, CODE, Part(), Part(thought=True), Part(None, signature="s")]),
)
ANSWERS = st.lists(PARTS, max_size=12)


def said(steps: Iterable[Step], candidate: int = 0) -> list[Part]:
    closed = [step for step in steps if isinstance(step, RunClosed) and step.candidate == candidate]
    return [part for step in closed for part in step.parts]


def as_gemini_wants_it_back(parts: Iterable[Part]) -> list[Part]:
    """Join unsigned neighbours and drop empty parts."""
    wanted: list[Part] = []
    for part in parts:
        if part.data in (None, "") and not part.signature and not part.extra:
            continue
        if wanted and is_plain(part) and is_plain(wanted[-1]) and part.thought == wanted[-1].thought:
            wanted[-1] = replace(part, data=f"{wanted[-1].data}{part.data}")
        else:
            wanted.append(part)
    return wanted


def is_plain(part: Part) -> bool:
    return isinstance(part.data, str) and part.signature is None and not part.extra


def one_by_one(parts: Iterable[Part]) -> list[Chunk]:
    return [*(chunk(part) for part in parts), chunk(reason="STOP")]


@settings(deadline=None)
@given(answers=st.lists(ANSWERS, min_size=1, max_size=3), order=st.randoms(use_true_random=False))
def test_runs_are_well_nested_in_every_candidate(answers: list[list[Part]], order: st.DrawFn) -> None:
    waiting = {number: one_by_one(parts) for number, parts in enumerate(answers)}
    chunks = []
    while waiting:
        number = order.choice(sorted(waiting))
        (candidate,) = waiting[number].pop(0).candidates
        chunks.append(Chunk((replace(candidate, index=number),)))
        if not waiting[number]:
            del waiting[number]
    open_runs: dict[int, RunOpened] = {}
    runs = dict.fromkeys(range(len(answers)), -1)
    for step in steps_of(chunks, most=len(answers)):
        match step:
            case RunOpened(candidate, run):
                assert candidate not in open_runs
                assert run == runs[candidate] + 1
                open_runs[candidate], runs[candidate] = step, run
            case (
                TextAdded(candidate, run, kind)
                | PartSigned(candidate, run, kind)
                | RunClosed(candidate, run, kind)
            ):
                assert (open_runs[candidate].run, open_runs[candidate].kind) == (run, kind)
                if isinstance(step, RunClosed):
                    del open_runs[candidate]
    assert open_runs == {}


@settings(deadline=None)
@given(parts=ANSWERS)
def test_closed_runs_hold_geminis_parts(parts: list[Part]) -> None:
    assert said(steps_of(one_by_one(parts))) == as_gemini_wants_it_back(parts)


@settings(deadline=None)
@given(parts=ANSWERS)
def test_text_steps_add_up_to_geminis_text(parts: list[Part]) -> None:
    steps = steps_of(one_by_one(parts))
    for kind, thoughts in ((RunKind.TEXT, False), (RunKind.THOUGHT, True)):
        grown = [step.text for step in steps if isinstance(step, TextAdded) and step.kind is kind]
        wanted = [part.data for part in parts if isinstance(part.data, str) and part.thought is thoughts]
        assert "".join(grown) == "".join(wanted)
        assert "" not in grown


@settings(deadline=None)
@given(parts=ANSWERS)
def test_every_signature_is_reported_in_order(parts: list[Part]) -> None:
    signed = [step.signature for step in steps_of(one_by_one(parts)) if isinstance(step, PartSigned)]
    assert signed == [part.signature for part in parts if part.signature]


@settings(deadline=None)
@given(parts=ANSWERS, data=st.data())
def test_any_chunking_gives_the_same_steps(parts: list[Part], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(parts)))))
    pieces = [parts[start:end] for start, end in zip([0, *cuts], [*cuts, len(parts)], strict=True)]
    chunks = [chunk(*piece) for piece in pieces]
    assert steps_of([*chunks, chunk(reason="STOP")]) == steps_of(one_by_one(parts))
    assert steps_of([chunk(*parts, reason="STOP")]) == steps_of(one_by_one(parts))


@settings(deadline=None)
@given(parts=ANSWERS, fed=st.integers(0, 12))
def test_a_truncation_anywhere_fails_and_keeps_the_earlier_steps(parts: list[Part], fed: int) -> None:
    whole = steps_of(one_by_one(parts))
    *told, last = steps_of(one_by_one(parts)[:-1][:fed])
    assert isinstance(last, TurnFailed)
    assert whole[: len(told)] == told
