"""Tests a client's settings: sends requests in the client's protocol through the bridge."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bridge.connect.clients import ClientGuide, Target
from bridge.connect.protocol_clients import PROTOCOL_CLIENTS, ProbeTool, ProtocolClient, ReceivedAnswer
from bridge.connect.sse_post import PostFailed, events
from bridge.gemini.types import JsonObject

OTHER_MODEL = "The model did not follow the instruction: try again, or use another model with --model."
BROKEN = "The bridge violated the protocol: please report this with the bridge's version and the model."


@dataclass(frozen=True, slots=True)
class ToolTest:
    """A question that the model cannot answer without the tool."""

    name: str
    tool: ProbeTool
    question: str
    result: str
    expected: str = ""  #: a text that the last answer must contain


LOOK_UP = ToolTest(
    "tool call and result",
    ProbeTool(
        "look_up_word",
        "Look up the word of the day.",
        {"type": "object", "properties": {"language": {"type": "string"}}, "required": ["language"]},
    ),
    "Call look_up_word, then repeat the word that it gives.",
    "The word is kingfisher.",
    "kingfisher",  # the model cannot guess this word, so it must have received the tool's result
)
PATCH = ToolTest(
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
    name: str
    seconds: float
    detail: str
    remedy: str = ""  #: empty if the test passed

    @property
    def good(self) -> bool:
        return not self.remedy


def tests_of(client: ClientGuide) -> tuple[ToolTest | None, ...]:
    """The tests for a client, in their order; None is the one without a tool."""
    freeform = PROTOCOL_CLIENTS[client.speaks].freeform
    return (None, LOOK_UP, PATCH) if freeform else (None, LOOK_UP)


def probe(client: ClientGuide, target: Target) -> Iterator[ProbeFinding]:
    """Yield the finding of each test as soon as it is known. Stop at the first failure, because the other
    tests would fail too."""
    conversation = ProbeConversation(PROTOCOL_CLIENTS[client.speaks], target)
    for test in tests_of(client):
        name, began = test.name if test else "streamed text", time.monotonic()
        try:
            detail = conversation.use_tool(test) if test else conversation.stream_text()
        except PostFailed as error:
            yield ProbeFinding(name, time.monotonic() - began, error.problem, error.remedy)
            return
        yield ProbeFinding(name, time.monotonic() - began, detail)


class ProbeConversation:
    def __init__(self, protocol_client: ProtocolClient, target: Target) -> None:
        self.protocol_client = protocol_client
        self._target = target

    def stream_text(self) -> str:
        body = self.protocol_client.first_request(
            self._target.model, "Tell me in one sentence that you can hear me."
        )
        began, arrivals = time.monotonic(), list[float]()
        received = self._send(body, arrivals)
        if not received.text:
            raise PostFailed("the answer has no text", OTHER_MODEL)
        return f"first event after {arrivals[0] - began:.2f} seconds, {len(received.text)} characters"

    def use_tool(self, test: ToolTest) -> str:
        body = self.protocol_client.first_request(self._target.model, test.question, test.tool)
        received = self._send(body)
        _check_calls(received, test.tool)
        last = self._send(self.protocol_client.next_request(body, received, test.result))
        if not last.text or test.expected not in last.text:
            raise PostFailed("the last answer does not contain the tool's result", OTHER_MODEL)
        return f"the model called {test.tool.name} and used its result"

    def _send(self, body: JsonObject, arrivals: list[float] | None = None) -> ReceivedAnswer:
        stream = events(
            self.protocol_client.address(self._target), body, self.protocol_client.headers(self._target)
        )
        try:
            received = self.protocol_client.read(stream if arrivals is None else _timed(stream, arrivals))
        except (LookupError, TypeError, ValueError) as error:
            reason = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
            raise PostFailed(f"an event does not follow the protocol: {reason}", BROKEN) from None
        if not received.ended:
            raise PostFailed("the stream ended without its last event", BROKEN)
        return received


def _timed(stream: Iterable[JsonObject], arrivals: list[float]) -> Iterator[JsonObject]:
    for event in stream:
        arrivals.append(time.monotonic())
        yield event


def _check_calls(received: ReceivedAnswer, tool: ProbeTool) -> None:
    if tool.name not in {call.name for call in received.calls}:
        raise PostFailed(f"the model did not call {tool.name}", OTHER_MODEL)
    if any(call.freeform != tool.freeform for call in received.calls):
        raise PostFailed(f"the call of {tool.name} has the wrong type of tool", BROKEN)
