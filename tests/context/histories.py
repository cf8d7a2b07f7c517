"""Histories of Gemini's values for property tests, and the requests that lead to each of them."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st

from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Part,
)

#: Sizes in characters: most parts are short, some are larger than a small window.
SIZES = st.one_of(st.integers(1, 200), st.integers(200, 6000))


def text(size: int) -> str:
    return ("word " * (size // 5 + 1))[:size]


@st.composite
def tool_round(draw: st.DrawFn, ids: count[int]) -> list[Content]:
    names = [f"call_{next(ids)}" for _ in range(draw(st.integers(1, 3)))]
    thoughts = [Part(text(draw(SIZES)), thought=True)] if draw(st.booleans()) else []
    calls = [Part(FunctionCall("run", {"of": name}, name), signature=f"s{name}") for name in names]
    shown = (InlineData("image/png", "A" * 200),) if draw(st.integers(0, 4)) == 0 else ()
    results = [
        Part(FunctionResponse("run", {"result": text(draw(SIZES))}, name, shown if name == names[0] else ()))
        for name in names
    ]
    return [Content(MODEL, (*thoughts, *calls)), Content(USER, tuple(results))]


@st.composite
def exchange(draw: st.DrawFn, ids: count[int]) -> list[Content]:
    """What the user says, a tool loop, and what the model says at its end."""
    media = [Part(InlineData("image/png", "A" * 200))] if draw(st.integers(0, 4)) == 0 else []
    said = Content(USER, (*media, Part(text(draw(SIZES)))))
    rounds = [turn for _ in range(draw(st.integers(0, 5))) for turn in draw(tool_round(ids))]
    thoughts = [Part(text(draw(SIZES)), thought=True)] if draw(st.booleans()) else []
    return [said, *rounds, Content(MODEL, (*thoughts, Part(text(draw(SIZES)))))]


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Content, ...]:
    """A conversation that ends with a turn of the user."""
    ids = count()
    turns = [turn for _ in range(draw(st.integers(1, 8))) for turn in draw(exchange(ids))]
    end = draw(st.integers(1, len(turns)))
    while turns[end - 1].role != USER:
        end -= 1
    return tuple(turns[:end])


def requests_of(conversation: tuple[Content, ...]) -> list[tuple[Content, ...]]:
    """The history that each request of the conversation had."""
    ends = [end for end, turn in enumerate(conversation, 1) if turn.role == USER]
    return [conversation[:end] for end in ends]
