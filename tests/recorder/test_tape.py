"""The tape of a request: it is bounded, it holds references, and it lets go of them."""

from __future__ import annotations

import gc
import weakref

from flights import kept, stage, taped
from scripted_gemini import text_chunk

from bridge.gemini.wire import chunk_from_json
from bridge.recorder.tape import FIRST_BATCHES, LAST_BATCHES, Recording, RequestLine, Tape


class Item:
    pass


def test_a_long_stream_keeps_its_beginning_and_its_end_and_counts_the_middle() -> None:
    chunks = [[chunk_from_json(text_chunk(str(number)))] for number in range(300)]
    lines = stage(kept(taped("full", {}, chunks=chunks)), "chunk")
    texts = [
        line["chunk"]["candidates"][0]["content"]["parts"][0]["text"] for line in lines if "chunk" in line
    ]
    expected = [*range(FIRST_BATCHES), *range(300 - LAST_BATCHES, 300)]
    assert texts == [str(number) for number in expected]
    assert lines[-1]["batches_left_out"] == 300 - FIRST_BATCHES - LAST_BATCHES


def test_what_a_tape_leaves_out_is_released_at_once() -> None:
    tape = Tape(Recording("full"), RequestLine({}, {}, {}), 0)
    items = [Item() for _ in range(2 * (FIRST_BATCHES + LAST_BATCHES))]
    references = [weakref.ref(item) for item in items]
    for item in items:
        tape.batch((), [("x", item)])
    del items, item
    gc.collect()
    assert sum(reference() is not None for reference in references) == FIRST_BATCHES + LAST_BATCHES
    tape.clear()
    gc.collect()
    assert not [reference for reference in references if reference() is not None]


def test_silence_is_no_batch() -> None:
    tape = taped("full", {}, chunks=[[], [], []])
    assert tape.batches == []
    assert stage(kept(tape), "chunk") == []


def test_the_client_is_told_whether_the_flight_is_kept_for_certain() -> None:
    assert Recording("shape").shown == "on-error; shape"
    assert Recording("full", "rule_1").shown == "full"
