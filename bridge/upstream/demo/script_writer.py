"""Writes the scripts of an answer: calls, JSON or text, within the token limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import orjson

from bridge.upstream.demo import calls, replies, signatures
from bridge.upstream.demo.argument_hints import ArgumentHints
from bridge.upstream.demo.ask import CHARACTERS_PER_TOKEN, OUTPUT_LIMIT, DemoRequest
from bridge.upstream.demo.samples import Sampler
from bridge.upstream.demo.script import Piece, Script

_THOUGHTS = (
    "**Reading the question**\n\nThe user wrote a message, and it reached me through the bridge. ",
    "**Choosing an answer**\n\nA short, friendly reply is enough here. I will keep it simple.\n",
)


def write(ask: DemoRequest) -> tuple[Script, ...]:
    return tuple(_script(ask, number) for number in range(ask.candidates))


def _script(ask: DemoRequest, number: int) -> Script:
    functions = calls.planned(ask)
    said = calls.pieces(ask, functions, number) if functions else pieces_of(_text(ask, number), ask.digest)
    pieces = (*_thoughts(), *said) if ask.thinks_aloud else tuple(said)
    if ask.thinks_aloud and not functions:
        pieces += (({"text": "", "thoughtSignature": signatures.mint(ask.digest + bytes([number]))},),)
    return Script(pieces).limited(ask.most_tokens)


def _thoughts() -> Iterator[Piece]:
    return (({"text": thought, "thought": True},) for thought in _THOUGHTS)


def _text(ask: DemoRequest, number: int) -> str:
    longest = (OUTPUT_LIMIT + 1) * CHARACTERS_PER_TOKEN  # `Script.limited` would cut more
    text = _uncut_text(ask, number)[:longest]
    stops = [text.index(stop) for stop in ask.stops if stop in text]
    return text[: min(stops, default=len(text))]


def _uncut_text(ask: DemoRequest, number: int) -> str:
    if ask.mime_type in ("application/json", "text/x.enum"):
        return _json(ask)
    if ask.variant in calls.CALLERS and not ask.functions and not ask.results:
        return replies.NO_TOOLS
    return replies.reply(ask, number)


def _json(ask: DemoRequest) -> str:
    value: Any = {"answer": "Hello from the demo model", "demo": True}
    if ask.answer_schema is not None:
        value = Sampler(ask.answer_schema, ArgumentHints(ask.question)).sample()
    if ask.mime_type == "text/x.enum":
        return str(value)
    return orjson.dumps(value, default=dict, option=orjson.OPT_INDENT_2).decode()


def pieces_of(text: str, digest: bytes) -> Iterator[Piece]:
    """The text in pieces of a few words; joined, they are exactly the text."""
    words = iter(re.findall(r"\S+\s*|\s+", text))
    for byte in cycle(digest):
        together = "".join(islice(words, 2 + byte % 4))
        if not together:
            return
        yield ({"text": together},)
