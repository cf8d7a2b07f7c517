"""The proof that a client's settings work: its protocol, spoken through the bridge as the client would."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bridge.connect.clients import Client, Target
from bridge.connect.protocol_clients import SPEAKERS, Heard, Speaker, Tool
from bridge.connect.sse_post import Trouble, events
from bridge.gemini.types import JsonObject

OTHER_MODEL = "The model did not do as it was told: try once more, or another model with --model."
BROKEN = "The bridge broke its protocol: please report it, with its version and the model."


@dataclass(frozen=True, slots=True)
class Trial:
    """A question that cannot be answered without the tool."""

    what: str
    tool: Tool
    question: str
    result: str
    expected: str = ""  #: must stand in the last answer


LOOK_UP = Trial(
    "tool call and result",
    Tool(
        "look_up_word",
        "Look up the word of the day.",
        {"type": "object", "properties": {"language": {"type": "string"}}, "required": ["language"]},
    ),
    "Call look_up_word, then repeat the word that it gives.",
    "The word is kingfisher.",
    "kingfisher",  # no model guesses it: the tool's result went all the way
)
PATCH = Trial(
    "freeform apply_patch",
    Tool(
        "apply_patch",
        "Change files by a patch.",
        grammar='start: "*** Begin Patch" /(.|\\n)*/ "*** End Patch"',
    ),
    "Use apply_patch to add the file hello.txt with one line in it, then say that it is done.",
    "Success. Updated the following files:\nA hello.txt",
)


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    seconds: float
    detail: str
    remedy: str = ""  #: only where it failed

    @property
    def good(self) -> bool:
        return not self.remedy


def probe(client: Client, target: Target) -> Iterator[Finding]:
    """Each proof as it is had. The first that fails is the last: the others would fail like it."""
    conversation = Conversation(SPEAKERS[client.speaks], target)
    trials = (None, LOOK_UP, PATCH) if conversation.speaker.freeform else (None, LOOK_UP)
    for trial in trials:
        what, began = trial.what if trial else "streamed text", time.monotonic()
        try:
            detail = conversation.used(trial) if trial else conversation.streamed()
        except Trouble as trouble:
            yield Finding(what, time.monotonic() - began, trouble.what, trouble.remedy)
            return
        yield Finding(what, time.monotonic() - began, detail)


class Conversation:
    def __init__(self, speaker: Speaker, target: Target) -> None:
        self.speaker = speaker
        self._target = target

    def streamed(self) -> str:
        asked = self.speaker.ask(self._target.model, "Tell me in one sentence that you can hear me.")
        began, arrivals = time.monotonic(), list[float]()
        heard = self._heard(asked, arrivals)
        if not heard.text:
            raise Trouble("the answer has no text", OTHER_MODEL)
        return f"first event after {arrivals[0] - began:.2f} s, {len(heard.text)} characters"

    def used(self, trial: Trial) -> str:
        asked = self.speaker.ask(self._target.model, trial.question, trial.tool)
        heard = self._heard(asked)
        _check_calls(heard, trial.tool)
        last = self._heard(self.speaker.answer(asked, heard, trial.result))
        if not last.text or trial.expected not in last.text:
            raise Trouble("the tool's result is not in the last answer", OTHER_MODEL)
        return f"{trial.tool.name} was called and answered"

    def _heard(self, body: JsonObject, arrivals: list[float] | None = None) -> Heard:
        stream = events(self.speaker.address(self._target), body, self.speaker.headers(self._target))
        try:
            heard = self.speaker.hear(stream if arrivals is None else _noted(stream, arrivals))
        except (LookupError, TypeError, ValueError) as error:
            raise Trouble(f"an event is not as the protocol has it: {error!r}", BROKEN) from None
        if not heard.ended:
            raise Trouble("the stream ended without its last event", BROKEN)
        return heard


def _noted(stream: Iterable[JsonObject], arrivals: list[float]) -> Iterator[JsonObject]:
    for event in stream:
        arrivals.append(time.monotonic())
        yield event


def _check_calls(heard: Heard, tool: Tool) -> None:
    if tool.name not in {call.name for call in heard.calls}:
        raise Trouble(f"{tool.name} was not called", OTHER_MODEL)
    if any(call.freeform != tool.freeform for call in heard.calls):
        raise Trouble(f"{tool.name} was called, but as another kind of tool", BROKEN)
