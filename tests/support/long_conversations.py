"""Conversations of 400 requests, in the shapes that agents send: many calls at once, long files, failures,
pictures, questions without a tool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, cycle, islice
from typing import Any, NamedTuple

import requests
from counting_gemini import CountingGemini, counted
from growing_clients import Call, GrowingClient
from scripted_gemini import ScriptedGemini, call_chunk, text_chunk

REQUESTS = 400


class Round(NamedTuple):
    """One request of a tool loop: how many calls the model answers with, and what each of them returns."""

    calls: int
    result: str
    thought: str = ""


LISTING = "src/main.py\nsrc/reader.py\ntests/test_reader.py\n" * 3
SOURCE = "def read(path):\n    with open(path) as file:\n        return file.read().splitlines()\n\n" * 24
FAILURE = "Exit code 1\nreader.py: no such file"
PICTURE = "A picture of the page, 800 by 600."
THOUGHT = "The reader fails on empty lines, so the tests have to be read first. " * 3

#: The rounds of some tasks. A task ends with a text.
TASKS: tuple[tuple[Round, ...], ...] = (
    (Round(1, LISTING, THOUGHT), Round(1, SOURCE), Round(1, "Written.")),
    (Round(6, LISTING), Round(2, SOURCE, THOUGHT), Round(1, FAILURE), Round(1, "3 passed.")),
    (),
    (Round(1, PICTURE), Round(1, FAILURE, THOUGHT)),
    (
        Round(3, "One line of output."),
        Round(1, SOURCE),
        Round(1, SOURCE),
        Round(1, "Edited."),
        Round(2, LISTING),
    ),
)


def rounds() -> Iterator[Round | None]:
    """What the model does in each request; None: it ends the task with a text."""
    return chain.from_iterable((*task, None) for task in cycle(TASKS))


class WorkingGemini(CountingGemini):
    """A model that works on the tasks."""

    def __init__(self, scripted: ScriptedGemini, window: int) -> None:
        super().__init__(scripted, window)
        self._rounds = rounds()

    def _said(self, tokens: int) -> list[dict[str, Any]]:
        usage = {"promptTokenCount": tokens, "candidatesTokenCount": 2, "totalTokenCount": tokens + 2}
        number, doing = next(self._numbers), next(self._rounds)
        if doing is None:
            return [text_chunk(f"Task done, as request {number} asked. " * 4, "STOP", **usage)]
        names = [f"c{number}_{place}" for place in range(doing.calls)]
        calls = [call_chunk("run", {"place": f"src/{name}"}, name) for name in names]
        thought = {"text": doing.thought, "thought": True}
        thinking = {"candidates": [{"content": {"role": "model", "parts": [thought]}, "index": 0}]}
        end = {"candidates": [{"finishReason": "STOP", "index": 0}], "usageMetadata": usage}
        return [*([thinking] if doing.thought else []), *calls, end]


@dataclass
class Conversation:
    """What became of one conversation."""

    tokens: list[int] = field(default_factory=list)  #: that the model got with each request
    bodies: list[dict[str, Any]] = field(default_factory=list)
    refusal: str = ""  #: the error with which it ended


def converse(client: GrowingClient, gemini: WorkingGemini) -> Conversation:
    """Send requests until one is refused, or all are answered."""
    client.user_says("Make the reader skip empty lines.")
    refusal = ""
    for number, doing in enumerate(islice(rounds(), REQUESTS)):
        calls = _sent(client)
        if isinstance(calls, str):
            refusal = calls
            break
        if doing is None:
            client.user_says(f"Task {number}: look at the next file.")
        else:
            client.tool_returns(calls, [doing.result] * len(calls))
    return Conversation([counted(body) for body in gemini.asked], gemini.asked, refusal)


def _sent(client: GrowingClient) -> list[Call] | str:
    """The calls of the answer, or the error."""
    answer = requests.post(
        client._address + client._path(), json=client._body(), headers=client.headers, timeout=60
    )
    return client._take(answer.json()) if answer.ok else answer.text
