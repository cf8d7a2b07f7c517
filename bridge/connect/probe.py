"""The proof that a client's settings work: its protocol, spoken through the bridge as the client would."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bridge.connect.clients import ClientGuide, Target
from bridge.connect.protocol_clients import PROTOCOL_CLIENTS, ProbeTool, ProtocolClient, ReceivedAnswer
from bridge.connect.sse_post import PostFailed, events
from bridge.gemini.types import JsonObject

OTHER_MODEL = "The model did not do as it was told: try once more, or another model with --model."
BROKEN = "The bridge broke its protocol: please report it, with its version and the model."


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """A question that cannot be answered without the tool."""

    what: str
    tool: ProbeTool
    question: str
    result: str
    expected: str = ""  #: must stand in the last answer


LOOK_UP = ProbeTarget(
    "tool call and result",
    ProbeTool(
        "look_up_word",
        "Look up the word of the day.",
        {"type": "object", "properties": {"language": {"type": "string"}}, "required": ["language"]},
    ),
    "Call look_up_word, then repeat the word that it gives.",
    "The word is kingfisher.",
    "kingfisher",  # no model guesses it: the tool's result went all the way
)
PATCH = ProbeTarget(
    "freeform apply_patch",
    ProbeTool(
        "apply_patch",
        "Change files by a patch.",
        grammar='start: "*** Begin Patch" /(.|\\n)*/ "*** End Patch"',
    ),
    "Use apply_patch to add the file hello.txt with one line in it, then say that it is done.",
    "Success. Updated the following files:\nA hello.txt",
)


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    what: str
    seconds: float
    detail: str
    remedy: str = ""  #: only where it failed

    @property
    def good(self) -> bool:
        return not self.remedy


def probe(client: ClientGuide, target: Target) -> Iterator[ProbeFinding]:
    """Each proof as it is had. The first that fails is the last: the others would fail like it."""
    conversation = Conversation(PROTOCOL_CLIENTS[client.speaks], target)
    trials = (None, LOOK_UP, PATCH) if conversation.protocol_client.freeform else (None, LOOK_UP)
    for trial in trials:
        what, began = trial.what if trial else "streamed text", time.monotonic()
        try:
            detail = conversation.used(trial) if trial else conversation.streamed()
        except PostFailed as trouble:
            yield ProbeFinding(what, time.monotonic() - began, trouble.what, trouble.remedy)
            return
        yield ProbeFinding(what, time.monotonic() - began, detail)


class Conversation:
    def __init__(self, protocol_client: ProtocolClient, target: Target) -> None:
        self.protocol_client = protocol_client
        self._target = target

    def streamed(self) -> str:
        asked = self.protocol_client.ask(self._target.model, "Tell me in one sentence that you can hear me.")
        began, arrivals = time.monotonic(), list[float]()
        received = self._received(asked, arrivals)
        if not received.text:
            raise PostFailed("the answer has no text", OTHER_MODEL)
        return f"first event after {arrivals[0] - began:.2f} s, {len(received.text)} characters"

    def used(self, trial: ProbeTarget) -> str:
        asked = self.protocol_client.ask(self._target.model, trial.question, trial.tool)
        received = self._received(asked)
        _check_calls(received, trial.tool)
        last = self._received(self.protocol_client.answer(asked, received, trial.result))
        if not last.text or trial.expected not in last.text:
            raise PostFailed("the tool's result is not in the last answer", OTHER_MODEL)
        return f"{trial.tool.name} was called and answered"

    def _received(self, body: JsonObject, arrivals: list[float] | None = None) -> ReceivedAnswer:
        stream = events(
            self.protocol_client.address(self._target), body, self.protocol_client.headers(self._target)
        )
        try:
            received = self.protocol_client.hear(stream if arrivals is None else _noted(stream, arrivals))
        except (LookupError, TypeError, ValueError) as error:
            raise PostFailed(f"an event is not as the protocol has it: {error!r}", BROKEN) from None
        if not received.ended:
            raise PostFailed("the stream ended without its last event", BROKEN)
        return received


def _noted(stream: Iterable[JsonObject], arrivals: list[float]) -> Iterator[JsonObject]:
    for event in stream:
        arrivals.append(time.monotonic())
        yield event


def _check_calls(received: ReceivedAnswer, tool: ProbeTool) -> None:
    if tool.name not in {call.name for call in received.calls}:
        raise PostFailed(f"{tool.name} was not called", OTHER_MODEL)
    if any(call.freeform != tool.freeform for call in received.calls):
        raise PostFailed(f"{tool.name} was called, but as another kind of tool", BROKEN)
