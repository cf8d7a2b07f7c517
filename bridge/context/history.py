"""The turns of a request with their estimated sizes, and the places where a step may cut them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from bridge.context.estimate import content_tokens, fixed_tokens
from bridge.gemini.context_steps import StepTaken
from bridge.gemini.history import repair_history
from bridge.gemini.types import USER, Content, FunctionResponse, GenerateRequest, Part


class KnownSummary(NamedTuple):
    """A summary that exists for the beginning of a conversation."""

    end: int  #: it stands for turns before this one
    text: str


@dataclass(frozen=True, slots=True)
class History:
    """Turns alternate, and each turn with calls is followed by one with their results.

    A place is a number of estimated tokens from the beginning of the conversation as the client sent it, so
    places stay the same while steps remove parts and turns.
    """

    turns: tuple[Content, ...]
    sizes: tuple[int, ...]  #: estimated tokens of each turn
    ends: tuple[int, ...]  #: the place at which each turn ended
    length: int  #: the place at which the conversation ended
    fixed: int  #: estimated tokens of instruction and tools
    summaries: tuple[KnownSummary, ...] = ()  #: those that a step may use, the shortest first
    carried: tuple[Part, ...] = ()  #: parts that stay when the turn that has them is dropped

    @property
    def tokens(self) -> int:
        """The estimated tokens of the request with these turns."""
        return self.fixed + sum(self.sizes)

    def before(self, protected: int, grid: int) -> int:
        """The number of leading turns that a step may change: those that end so many tokens before the last
        place on the grid. The last turn is never among them."""
        return bisect_right(self.ends, (self.length - 1) // grid * grid - protected)

    def until_next_move(self, grid: int) -> int:
        """The tokens by which the conversation can grow until `before` moves."""
        return -self.length % grid

    def with_turns(self, changed: Mapping[int, Content]) -> History:
        """With other turns at these positions. A turn must keep its role, its calls and its responses."""
        if not changed:
            return self
        turns, sizes = list(self.turns), list(self.sizes)
        for position, turn in changed.items():
            turns[position], sizes[position] = turn, content_tokens(turn)
        return replace(self, turns=tuple(turns), sizes=tuple(sizes))

    def with_span(self, start: int, end: int, turns: Sequence[Content]) -> History:
        """With these turns instead of the turns from `start` up to `end`. They must fit between their
        neighbours: roles alternate, and no call is without its result."""
        place = self.ends[end - 1] if end > start else (self.ends[start - 1] if start else 0)
        return replace(
            self,
            turns=(*self.turns[:start], *turns, *self.turns[end:]),
            sizes=(*self.sizes[:start], *map(content_tokens, turns), *self.sizes[end:]),
            ends=(*self.ends[:start], *(place for _ in turns), *self.ends[end:]),
        )

    def is_opening(self, position: int) -> bool:
        """Whether the conversation can begin with this turn: a user turn without results."""
        return is_opening(self.turns[position])


def is_opening(turn: Content) -> bool:
    return turn.role == USER and not any(isinstance(part.data, FunctionResponse) for part in turn.parts)


def step_taken(name: str, changes: int, before: History, after: History, scale: float) -> StepTaken:
    saved = max(round((before.tokens - after.tokens) * scale), 0)
    return StepTaken(name, changes, saved, first_difference(before.turns, after.turns))


def first_difference(before: Sequence[Content], after: Sequence[Content]) -> int:
    """The number of equal turns at the beginning."""
    pairs = zip(before, after, strict=False)
    return next((place for place, (old, new) in enumerate(pairs) if old != new), len(after))


def history_of(request: GenerateRequest) -> tuple[History, tuple[str, ...]]:
    """The history, and notes on repairs."""
    repaired = repair_history(request.contents, prefill=True)
    sizes = tuple(map(content_tokens, repaired.contents))
    ends = tuple(accumulate(sizes))
    length = ends[-1] if ends else 0
    return History(repaired.contents, sizes, ends, length, fixed_tokens(request)), repaired.notes
