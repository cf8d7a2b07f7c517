"""The events of recorded streams and of any other stream of Gemini, read by clients that trust nothing."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from conversations import CONVERSATIONS
from hypothesis import given
from hypothesis import strategies as st
from other_options import OPTIONS
from strict_readers import READERS
from transcripts import NAMES, VARIANTS, Run, TranscriptVariant, chunks_of, in_one_lump, in_single_characters

from bridge.errors import UpstreamUnreachable
from bridge.gemini.finish import FinishReason
from bridge.gemini.types import Chunk
from bridge.gemini.wire import chunk_from_json

READ = [told for told in VARIANTS if told.protocol.name in READERS]
EACH = pytest.mark.parametrize(
    ("told", "fields"),
    [
        pytest.param(told, fields, id=f"{told.label}-{label}")
        for told in READ
        for label, fields in OPTIONS[told.protocol.name].items()
    ],
)


def read(told: TranscriptVariant, events: list[Any]) -> None:
    READERS[told.protocol.name]().read(events)


@pytest.mark.parametrize(
    ("name", "told"), list(product(NAMES, READ)), ids=lambda value: getattr(value, "label", value)
)
def test_recorded_streams(name: str, told: TranscriptVariant) -> None:
    chunks = chunks_of(name)
    for cut in (chunks, in_single_characters(chunks), in_one_lump(chunks)):
        read(told, told.run().whole(cut))
    for length in range(len(chunks) + 1):
        read(told, told.run().broken(chunks[:length], UpstreamUnreachable("gone")))


# --- any stream --------------------------------------------------------------------------------------

_TEXT = st.text(alphabet="aé\n🙂", max_size=4)
_SIGNATURES = st.sampled_from([{}, {}, {"thoughtSignature": "c2lnbmVk"}])
_CALLS = st.fixed_dictionaries(
    {"name": st.sampled_from(["note", "local_shell", "sky__look", "weigh", "unknown"])},
    optional={"args": st.just({"input": "x"}), "id": st.sampled_from(["c1", "c2"])},
)
_SERVER_TOOL = {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB"}
_DATA = st.one_of(
    st.builds(lambda text: {"text": text}, _TEXT),
    st.builds(lambda text: {"text": text, "thought": True}, _TEXT),
    st.builds(lambda call: {"functionCall": call}, _CALLS),
    st.sampled_from(
        [
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
            {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}},
            {"executableCode": {"language": "PYTHON", "code": "1 + 1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_FAILED"}},
            {"toolCall": _SERVER_TOOL},
            {"toolResponse": {**_SERVER_TOOL, "response": {}}},
            {"somethingNew": 1},
        ]
    ),
)
_PARTS = st.lists(st.builds(lambda data, signed: {**data, **signed}, _DATA, _SIGNATURES), max_size=3)
_GROUNDING = {
    "webSearchQueries": ["q"],
    "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
    "groundingSupports": [{"segment": {"startIndex": 0, "endIndex": 1}, "groundingChunkIndices": [0]}],
}
_LOGPROBS = {"chosenCandidates": [{"token": "a", "logProbability": -0.5}]}
_METADATA = st.fixed_dictionaries(
    {},
    optional={
        "groundingMetadata": st.just(_GROUNDING),
        "logprobsResult": st.just(_LOGPROBS),
        "finishReason": st.just("STOP"),  # Gemini was seen to send it early
    },
)
_LAST_METADATA = st.fixed_dictionaries({"finishReason": st.sampled_from(list(FinishReason)).map(str)})
_BEGINNINGS = st.lists(st.tuples(_PARTS, _METADATA, st.sampled_from([0, 0, 0, 1])), max_size=5)
_ENDS = st.lists(st.tuples(_PARTS, _LAST_METADATA, st.just(0)), max_size=1)


def _chunk(parts: list[Any], metadata: dict[str, Any], index: int, count: int) -> Chunk:
    candidate = {"content": {"role": "model", "parts": parts}, "index": index, **metadata}
    usage = {"promptTokenCount": 5, "candidatesTokenCount": count, "totalTokenCount": 5 + count}
    return chunk_from_json({"candidates": [candidate], "usageMetadata": usage})


def _chunks(beginning: list[Any], end: list[Any]) -> list[Chunk]:
    return [_chunk(*fields, count) for count, fields in enumerate((*beginning, *end))]


@EACH
@given(chunks=st.builds(_chunks, _BEGINNINGS, _ENDS))
def test_any_stream(told: TranscriptVariant, fields: dict[str, Any], chunks: list[Chunk]) -> None:
    conversation = CONVERSATIONS[told.protocol.name]

    def run() -> Run:
        return Run(
            told.protocol, {**conversation.opening, **fields}, caller=conversation.callers[told.caller]
        )

    read(told, run().whole(chunks))
    read(told, run().broken(chunks, UpstreamUnreachable("gone")))
