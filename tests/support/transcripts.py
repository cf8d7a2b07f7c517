"""Recorded Gemini streams, and ways to run them through a protocol."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from conversations import CONVERSATIONS

from bridge.errors import BridgeError
from bridge.gemini.model_adapter import AnswerAdapter, adapt_request
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.service_tier import STANDARD, tier_to_send
from bridge.gemini.signatures import CallSignatures
from bridge.gemini.types import Candidate, Chunk, Content, FunctionCall, GenerateRequest, JsonObject, Part
from bridge.gemini.wire import chunk_from_json
from bridge.ids_and_clock import IdsAndClock
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import Caller, Event, EventMachine, Protocol

#: Another folder for a test of exported transcripts.
FOLDER = Path(os.environ.get("BRIDGE_TEST_TRANSCRIPTS") or Path(__file__).parent.parent / "transcripts")
ACCEPT = bool(os.environ.get("BRIDGE_TEST_ACCEPT"))
CAPABILITIES = ModelCapabilities(family="test-1", tool_media=True, prefill=True)

NAMES = sorted(path.parent.name for path in FOLDER.glob("*/upstream.jsonl"))


def json_lines(name: str) -> list[dict[str, Any]]:
    # Split only at line feeds: the texts contain other line separators.
    lines = (FOLDER / name / "upstream.jsonl").read_bytes().split(b"\n")
    return [orjson.loads(line) for line in lines if line]


def chunks_of(name: str) -> list[Chunk]:
    return [chunk_from_json(line) for line in json_lines(name)]


class ForgetfulSignatureStore:
    def keep(self, family: str, signatures: JsonObject) -> None:
        pass

    def find(self, family: str, call_ids: Iterable[str]) -> dict[str, str]:
        return {}


class MemorySignatureStore(ForgetfulSignatureStore):
    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def keep(self, family: str, signatures: JsonObject) -> None:
        self.kept.update(signatures)

    def find(self, family: str, call_ids: Iterable[str]) -> dict[str, str]:
        return {each: self.kept[each] for each in call_ids if each in self.kept}


def counting_ids() -> IdsAndClock:
    """Return a source of ids that counts each kind of id separately."""
    numbers: defaultdict[str, count[int]] = defaultdict(lambda: count(1))
    return IdsAndClock(
        new_id=lambda prefix: f"{prefix}{next(numbers[prefix]):04}", now=lambda: 1_800_000_000.0
    )


class Run:
    """One answer of one protocol, in memory."""

    def __init__(
        self,
        protocol: Protocol,
        body: JsonObject,
        vault: CallSignatures | None = None,
        caller: Caller | None = None,
    ) -> None:
        ids_and_clock = counting_ids()
        self.asked = protocol.to_gemini(protocol.schema.load(dict(body)), caller or Caller())
        self.request, self.adapter = fitted(self.asked.request, vault)
        self.machine: EventMachine = protocol.machine(self.asked, ids_and_clock)

    def whole(self, chunks: Iterable[Chunk]) -> list[Event]:
        return [*self.fed(chunks), *self.machine.finish()]

    def fed(self, chunks: Iterable[Chunk]) -> list[Event]:
        return [event for chunk in chunks for event in self.machine.feed([self.adapter.feed(chunk)])]

    def broken(self, chunks: Iterable[Chunk], error: BridgeError) -> list[Event]:
        return [*self.fed(chunks), *self.machine.fail(error)]


class TranscriptVariant(NamedTuple):
    """A protocol and one of its callers that get their own dialect."""

    protocol: Protocol
    caller: str  #: the name in `conversations`

    @property
    def label(self) -> str:
        """Return the name of its recorded stream."""
        return f"{self.protocol.name}{self.caller}"

    def run(self, vault: CallSignatures | None = None) -> Run:
        conversation = CONVERSATIONS[self.protocol.name]
        return Run(self.protocol, conversation.opening, vault, conversation.callers[self.caller])


VARIANTS = [
    TranscriptVariant(protocol, caller)
    for protocol in PROTOCOLS
    for caller in CONVERSATIONS[protocol.name].callers
]


def fitted(
    request: GenerateRequest, vault: CallSignatures | None = None
) -> tuple[GenerateRequest, AnswerAdapter]:
    sent = replace(request, service_tier=tier_to_send(request.service_tier or STANDARD, STANDARD))
    return adapt_request(
        sent, "gemini-test", CAPABILITIES, vault or ForgetfulSignatureStore(), counting_ids().new_id
    )


# --- other cuts of the same stream -------------------------------------------------------------------


def in_single_characters(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Split plain text into single characters; leave everything else unchanged."""
    return [piece for chunk in chunks for piece in _split(chunk)]


def _split(chunk: Chunk) -> list[Chunk]:
    if len(chunk.candidates) != 1:
        return [chunk]
    candidate = chunk.candidates[0]
    pieces = [piece for part in candidate.parts for piece in _characters(part)]
    if len(pieces) < 2:
        return [chunk]
    *first, last = pieces
    ahead = [Chunk((Candidate(Content("model", (piece,)), index=candidate.index),)) for piece in first]
    end = (replace(candidate, content=Content("model", (last,))),)
    return [*ahead, Chunk(end, chunk.usage, chunk.prompt_feedback, chunk.extra)]


def _characters(part: Part) -> list[Part]:
    if not isinstance(part.data, str) or part.signature or part.extra:
        return [part]
    return [replace(part, data=character) for character in part.data]


def in_one_lump(chunks: list[Chunk]) -> list[Chunk]:
    """Join all candidates of the stream in one chunk, in order."""
    usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage), None)
    feedback = next((chunk.prompt_feedback for chunk in chunks if chunk.prompt_feedback), None)
    everything = tuple(candidate for chunk in chunks for candidate in chunk.candidates)
    extra = {name: value for chunk in chunks for name, value in chunk.extra.items()}
    return [Chunk(everything, usage, feedback, extra)] if chunks else []


def model_content(chunks: Iterable[Chunk], *, as_made: bool = False) -> tuple[Part, ...]:
    """Return Gemini's answer as history: unsigned neighbours joined, empty parts dropped.

    `as_made` keeps its calls unchanged; otherwise they are as other clients need them.
    """
    parts: list[Part] = []
    seen_ids: set[str | None] = set()
    for part in _said(chunks, candidate=0):
        before = parts[-1] if parts else None
        if before is not None and _plain(before) and _plain(part) and before.thought == part.thought:
            parts[-1] = replace(before, data=f"{before.data}{part.data}")
        elif isinstance(part.data, FunctionCall) and not as_made:
            # A second call with the same id got a generated id, which is not sent to Gemini.
            own_id = None if part.data.id in seen_ids else part.data.id
            seen_ids.add(part.data.id)
            parts.append(replace(part, data=replace(part.data, args=part.data.args or {}, id=own_id)))
        else:
            parts.append(part)
    return tuple(parts)


def _said(chunks: Iterable[Chunk], candidate: int) -> Iterable[Part]:
    for chunk in chunks:
        for each in chunk.candidates:
            if each.number == candidate:
                yield from (part for part in each.parts if part.data != "" or part.signature)


def _plain(part: Part) -> bool:
    return isinstance(part.data, str) and part.signature is None and not part.extra
