"""The tape of a request: it is bounded, it holds references, and it lets go of them."""

from __future__ import annotations

import weakref

import pytest
from flights import kept, stage, taped
from scripted_gemini import text_chunk

from bridge.gemini.wire import chunk_from_json
from bridge.recorder.tape import MOST_BATCHES, MOST_ON_ERROR, Recording, RequestLine, Tape


class Item:
    pass


@pytest.mark.parametrize(("reason", "most"), [("all", MOST_BATCHES), ("", MOST_ON_ERROR)])
def test_a_long_stream_keeps_its_beginning_and_its_end_and_counts_the_middle(reason: str, most: int) -> None:
    chunks = [[chunk_from_json(text_chunk(str(number)))] for number in range(600)]
    lines = stage(kept(taped("full", {}, chunks=chunks, reason=reason)), "chunk")
    texts = [
        line["chunk"]["candidates"][0]["content"]["parts"][0]["text"] for line in lines if "chunk" in line
    ]
    assert texts == [str(number) for number in (*range(most), *range(600 - most, 600))]
    assert lines[-1]["batches_left_out"] == 600 - 2 * most


@pytest.mark.parametrize("length", [0, 1, 2 * MOST_ON_ERROR - 1, 2 * MOST_ON_ERROR])
def test_a_short_stream_is_kept_whole(length: int) -> None:
    chunks = [[chunk_from_json(text_chunk(str(number)))] for number in range(length)]
    lines = stage(kept(taped("full", {}, chunks=chunks, reason="")), "chunk")
    assert ["chunk" in line for line in lines] == [True] * length


def test_what_a_tape_leaves_out_is_released_at_once() -> None:
    tape = Tape(Recording("full"), RequestLine({}, {}, {}), 0)
    items = [Item() for _ in range(100)]
    references = [weakref.ref(item) for item in items]
    for item in items:
        tape.batch((), [("x", item)])
    del items, item
    assert sum(reference() is not None for reference in references) == 2 * MOST_ON_ERROR
    tape.clear()
    assert not [reference for reference in references if reference() is not None]


def test_silence_is_no_batch() -> None:
    tape = taped("full", {}, chunks=[[], [], []])
    assert tape.batches == []
    assert stage(kept(tape), "chunk") == []


def test_the_client_is_told_whether_the_flight_is_kept_for_certain() -> None:
    assert Recording("shape").shown == "on-error; shape"
    assert Recording("full", "rule_1").shown == "full"
