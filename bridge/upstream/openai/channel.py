"""The text of one channel of an answer: the answer itself, or the thoughts."""

from __future__ import annotations

#: A shorter text may be repeated by chance.
SHORTEST_REPEAT = 64


class TextChannel:
    """Some servers send the whole text so far in each delta; this finds out, and returns only what is new.

    It compares only a delta that is as long as everything before it, so the cost stays linear in the bytes.
    """

    def __init__(self, cumulative_from: int) -> None:
        self._cumulative_from = cumulative_from
        self._pieces: list[str] = []
        self._cumulative = False
        self.length = 0

    def new_text(self, delta: str) -> str:
        if delta and len(delta) >= self.length >= self._cumulative_from and self._repeats(delta):
            delta = delta[self.length :]
        if delta:
            self._pieces.append(delta)
            self.length += len(delta)
        return delta

    def _repeats(self, delta: str) -> bool:
        if len(delta) == self.length and not self._cumulative and self.length < SHORTEST_REPEAT:
            return False
        self._pieces = ["".join(self._pieces)]
        if not delta.startswith(self._pieces[0]):
            return False
        self._cumulative = self._cumulative or len(delta) > self.length
        return True
