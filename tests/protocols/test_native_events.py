"""Native streams: written as events or as an array, with silences anywhere, and folded into one answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from conversations import CONVERSATIONS
from hypothesis import given
from hypothesis import strategies as st
from transcripts import NAMES, Run, chunks_of, json_lines

from bridge.protocols.base import Event, StreamFraming
from bridge.protocols.gemini_native import PROTOCOL
from bridge.protocols.gemini_native.fold import fold_chunks
from bridge.protocols.gemini_native.framing import ArrayFraming, EventFraming

CONVERSATION = CONVERSATIONS["gemini_native"]
SILENCE = None
FAILURE = {"error": {"code": 503, "message": "Gone.", "status": "UNAVAILABLE"}}
CHUNKS = st.lists(
    st.one_of(st.just(SILENCE), st.fixed_dictionaries({"text": st.text(), "{[,": st.booleans()})), max_size=8
)


def written(framing: StreamFraming, chunks: Iterable[Any], last: Event) -> bytes:
    pieces = [
        framing.keep_alive() if chunk is SILENCE else framing.encode_events([Event("chunk", chunk)])
        for chunk in chunks
    ]
    return b"".join([*pieces, framing.encode_events([last])])


def said(chunks: Iterable[Any]) -> list[Any]:
    return [chunk for chunk in chunks if chunk is not SILENCE]


def events_in(data: bytes) -> list[Any]:
    *events, rest = data.split(b"\n\n")
    assert rest == b""
    assert all(event.startswith(b"data: ") and b"\n" not in event for event in events)
    return [orjson.loads(event[6:]) for event in events]


@given(CHUNKS)
def test_silences_do_not_change_the_events(chunks):
    told = events_in(written(EventFraming(), chunks, Event("end", None)))
    begun = [{}] if chunks and chunks[-1] is SILENCE else []  # an opened event must be closed
    assert told == said(chunks) + begun


@given(CHUNKS)
def test_a_failure_is_reported_in_both_of_googles_formats(chunks):
    told = written(EventFraming(), chunks, Event("error", FAILURE))
    events, bare = told[: told.rindex(b"\n\n") + 2], told[told.rindex(b"\n\n") + 2 :]
    assert events_in(events) == [*said(chunks), FAILURE]
    assert orjson.loads(bare) == FAILURE


@given(CHUNKS)
def test_silences_do_not_change_the_array(chunks):
    told = written(ArrayFraming(), chunks, Event("end", None))
    assert orjson.loads(told) == said(chunks)
    assert told.startswith(b"[")
    assert told.endswith(b"]")


@given(CHUNKS)
def test_an_array_that_failed_ends_with_the_error_and_a_line_feed(chunks):
    told = written(ArrayFraming(), chunks, Event("error", FAILURE))
    assert orjson.loads(told) == [*said(chunks), FAILURE]
    assert told.startswith(b"[")
    assert told.endswith(b"]\n")


def test_no_event_is_opened_after_the_finish_reason():
    last = {"candidates": [{"finishReason": "STOP"}]}
    told = written(EventFraming(), [{"a": 1}, SILENCE, last, SILENCE, SILENCE], Event("end", None))
    assert events_in(told) == [{"a": 1}, last]


def test_a_silence_before_the_first_chunk_opens_the_stream():
    assert EventFraming().keep_alive() == b"data: "
    assert ArrayFraming().keep_alive() == b"["


@pytest.mark.parametrize("name", NAMES)
def test_a_native_stream_has_geminis_chunks(name):
    run = Run(PROTOCOL, CONVERSATION.opening, caller=CONVERSATION.callers[""])
    events = run.whole(chunks_of(name))
    assert [event.data for event in events if event.type == "chunk"] == json_lines(name)


@pytest.mark.parametrize("name", ["malformed_call", "unknown_finish_reason"])
def test_a_failing_finish_reason_is_passed_to_native_clients_and_logged(name):
    run = Run(PROTOCOL, CONVERSATION.opening, caller=CONVERSATION.callers[""])
    assert [event.type for event in run.whole(chunks_of(name))][-1] == "end"
    assert run.machine.error is None
    assert run.machine.error_in_answer.kind == "malformed"


# --- the whole answer --------------------------------------------------------------------------------


def chunk(*parts: Any, **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **candidate}]}


def parts_of(*chunks: Any) -> Any:
    (candidate,) = fold_chunks(chunks)["candidates"]
    return candidate["content"].get("parts")


def test_neighbouring_texts_are_joined_and_empty_ones_dropped():
    assert parts_of(chunk({"text": "Hel"}), chunk({"text": "lo"}), chunk({"text": ""})) == [{"text": "Hello"}]


def test_a_thought_is_not_joined_with_the_answer():
    thought = {"text": "Hm", "thought": True}
    assert parts_of(chunk(thought), chunk({**thought, "text": "m."}), chunk({"text": "Yes."})) == [
        {"text": "Hmm.", "thought": True},
        {"text": "Yes."},
    ]


def test_a_signed_part_is_never_joined():
    signed = {"text": "lo", "thoughtSignature": "c2ln"}
    empty = {"text": "", "thoughtSignature": "YQ=="}
    assert parts_of(chunk({"text": "Hel"}), chunk(signed), chunk({"text": "!"}), chunk(empty)) == [
        {"text": "Hel"},
        signed,
        {"text": "!"},
        empty,
    ]


def test_calls_keep_their_position_among_texts():
    call = {"functionCall": {"name": "f", "args": {}}}
    assert parts_of(chunk({"text": "a"}), chunk(call, call), chunk({"text": "b"}), chunk({"text": "c"})) == [
        {"text": "a"},
        call,
        call,
        {"text": "bc"},
    ]


def test_partial_fields_are_joined_and_other_fields_take_the_last_value():
    folded = fold_chunks(
        [
            {
                **chunk(
                    {"text": "a"},
                    logprobsResult={"chosenCandidates": [1], "topCandidates": [2]},
                    citationMetadata={"citationSources": [{"startIndex": 0}]},
                    groundingMetadata={"webSearchQueries": ["q"]},
                    safetyRatings=[1],
                ),
                "usageMetadata": {"totalTokenCount": 1},
            },
            {
                **chunk(
                    {"text": "b"},
                    logprobsResult={"chosenCandidates": [3], "topCandidates": [4]},
                    citationMetadata={"citationSources": [{"startIndex": 9}]},
                    groundingMetadata={"groundingChunks": [5]},
                    safetyRatings=[6],
                    finishReason="STOP",
                ),
                "usageMetadata": {"totalTokenCount": 2},
                "modelVersion": "m",
            },
        ]
    )
    assert folded == {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "ab"}]},
                "index": 0,
                "logprobsResult": {"chosenCandidates": [1, 3], "topCandidates": [2, 4]},
                "citationMetadata": {"citationSources": [{"startIndex": 0}, {"startIndex": 9}]},
                "groundingMetadata": {"webSearchQueries": ["q"], "groundingChunks": [5]},
                "safetyRatings": [6],
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"totalTokenCount": 2},
        "modelVersion": "m",
    }


def test_candidates_are_kept_apart():
    second = {"candidates": [{"content": {"parts": [{"text": "B"}]}, "index": 1}]}
    folded = fold_chunks([second, chunk({"text": "a"}), second, chunk({"text": "a"}, finishReason="STOP")])
    assert [candidate["content"]["parts"] for candidate in folded["candidates"]] == [
        [{"text": "aa"}],
        [{"text": "BB"}],
    ]


def test_a_candidate_without_content_has_none_in_the_whole_answer_either():
    assert fold_chunks([{"candidates": [{"finishReason": "SAFETY"}]}]) == {
        "candidates": [{"finishReason": "SAFETY"}]
    }
    assert fold_chunks([{"promptFeedback": {"blockReason": "SAFETY"}}]) == {
        "promptFeedback": {"blockReason": "SAFETY"}
    }


@pytest.mark.parametrize("odd", [5, None, "text", {"a": 1}])
def test_a_growing_field_that_is_not_a_list_takes_the_last_value(odd):
    said = [chunk({"text": "a"}, citationMetadata={"citations": each}) for each in (odd, [1], odd, [2], [3])]
    before = orjson.dumps(said)
    assert fold_chunks(said)["candidates"][0]["citationMetadata"] == {"citations": [2, 3]}
    assert orjson.dumps(said) == before
