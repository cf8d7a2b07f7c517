"""Every recorded stream in every protocol: exact bytes, any chunking, any truncation, answers as history."""

from __future__ import annotations

from itertools import product

import pytest
from conversations import CONVERSATIONS
from first_difference import first_difference
from transcripts import (
    ACCEPT,
    FOLDER,
    NAMES,
    VARIANTS,
    ForgetfulSignatureStore,
    MemorySignatureStore,
    Run,
    TranscriptVariant,
    chunks_of,
    fitted,
    in_one_lump,
    in_single_characters,
    json_lines,
    model_content,
)

from bridge.errors import UpstreamUnreachable
from bridge.gemini.types import MODEL
from bridge.gemini.wire import chunk_from_json, chunk_to_json

EVERY = pytest.mark.parametrize(
    ("name", "protocol", "caller"),
    [pytest.param(name, *told, id=f"{name}-{told.label}") for name, told in product(NAMES, VARIANTS)],
)


def run(protocol, caller, vault=None):
    return TranscriptVariant(protocol, caller).run(vault)


@EVERY
def test_the_events_are_the_recorded_ones(name, protocol, caller):
    played, label = run(protocol, caller), f"{protocol.name}{caller}"
    sent = protocol.framing(played.asked).encode_events(played.whole(chunks_of(name)))
    expected = FOLDER / name / f"{label}.sse"
    if ACCEPT:
        expected.write_bytes(sent)
    recorded = expected.read_bytes()
    if difference := first_difference(recorded.decode(), sent.decode(), name=name, label=label):
        pytest.fail(difference, pytrace=False)
    assert sent == recorded


@EVERY
@pytest.mark.parametrize("cut", [in_single_characters, in_one_lump])
def test_any_chunking_gives_the_same_body(name, protocol, caller, cut):
    original, other = run(protocol, caller), run(protocol, caller)
    events, recut = original.whole(chunks_of(name)), other.whole(cut(chunks_of(name)))
    assert type(original.machine.error) is type(other.machine.error)
    if original.machine.error is None:
        assert original.machine.fold(events) == other.machine.fold(recut)


@EVERY
def test_any_prefix_ends_legally_with_an_error(name, protocol, caller):
    chunks = chunks_of(name)
    for length in range(len(chunks) + 1):
        for cut_short in (Run.whole, lambda run, fed: run.broken(fed, UpstreamUnreachable("gone"))):
            attempt = run(protocol, caller)
            events = cut_short(attempt, chunks[:length])
            assert attempt.machine.over, f"after {length} chunks: {events}"
            assert attempt.machine.fail(UpstreamUnreachable("late")) == []


@EVERY
def test_an_answer_sent_back_as_history_gives_gemini_its_own_content(name, protocol, caller):
    conversation = CONVERSATIONS[protocol.name]
    vault = MemorySignatureStore() if conversation.relies_on_vault else ForgetfulSignatureStore()
    first = run(protocol, caller, vault)
    events = first.whole(chunks_of(name))
    said = model_content(chunks_of(name), as_made=conversation.keeps_calls)
    if first.machine.error is not None or not said or conversation.goes_on is None:
        return  # the answer has no content to send back
    body = conversation.goes_on(conversation.opening, first.machine.fold(events))
    again = protocol.to_gemini(protocol.schema.load(body), conversation.callers[caller])
    request, _ = fitted(again.request, vault)
    back = [content.parts for content in request.contents if content.role == MODEL]
    assert back == [conversation.seated(said)]
    assert (back == [said]) or first.machine.losses, "what was left out must be counted"


@pytest.mark.parametrize("name", NAMES)
def test_gemini_chunks_make_a_round_trip(name):
    for line in json_lines(name):
        assert chunk_to_json(chunk_from_json(line)) == line


@pytest.mark.parametrize("name", NAMES)
def test_every_transcript_explains_its_purpose(name):
    assert (FOLDER / name / "why.md").read_text().strip().endswith(".")
