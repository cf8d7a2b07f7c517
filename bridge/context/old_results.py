"""Replaces old results of tools by a sentence."""

from __future__ import annotations

from dataclasses import replace

from bridge.context.base import LadderStep, Shortened
from bridge.context.estimate import value_tokens
from bridge.context.history import History
from bridge.context.window import Window
from bridge.gemini.types import Content, FunctionResponse, Part

#: A smaller result stays: the sentence would be as long.
SMALLEST = 100


class OldResults(LadderStep):
    """The newest results stay, and all stay if too little would be saved. `old_media` removes media."""

    name = "old_results"

    def apply(self, history: History, window: Window) -> Shortened:
        changed: dict[int, Content] = {}
        count = 0
        for position in range(history.before(window.protected, window.grid)):
            turn = history.turns[position]
            parts = tuple([_masked(part) for part in turn.parts])
            if parts != turn.parts:
                changed[position] = replace(turn, parts=parts)
                count += sum(before is not after for before, after in zip(turn.parts, parts, strict=True))
        shorter = history.with_turns(changed)
        if history.tokens - shorter.tokens < window.least_saved:
            return Shortened(history)
        return Shortened(shorter, count)


def _masked(part: Part) -> Part:
    data = part.data
    if not isinstance(data, FunctionResponse) or (size := value_tokens(data.response)) < SMALLEST:
        return part
    sentence = f"The result of {data.name} (about {size} tokens) was removed to save space."
    return replace(part, data=replace(data, response={"removed": sentence}))
