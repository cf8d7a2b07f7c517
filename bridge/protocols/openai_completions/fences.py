"""Removes the Markdown fence that a model puts around code although it was told not to."""

from __future__ import annotations

FENCE = "```"


class FenceFilter:
    """Passes text on. An answer that begins with a fence is held back to its end, because only then it is
    known whether the fence holds all of it."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._fenced = False
        self._passing = False

    def feed(self, text: str) -> str:
        if self._passing:
            return text
        self._held.append(text)
        if self._fenced:
            return ""
        start = "".join(self._held)
        self._fenced = start.startswith(FENCE)
        if self._fenced or FENCE.startswith(start):
            return ""
        self._passing, self._held = True, []
        return start

    def finish(self) -> str:
        """What was held back."""
        return unfenced("".join(self._held))


def unfenced(text: str) -> str:
    """The inside, if all of the text is one fence; else the text."""
    opening, found, rest = text.partition("\n")
    inside = rest.rstrip().removesuffix(FENCE)
    if not found or "`" in opening.removeprefix(FENCE) or inside == rest.rstrip() or FENCE in inside:
        return text
    return inside.removesuffix("\n")
