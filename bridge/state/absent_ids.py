"""Remembers which signatures a store does not have: agents send their whole history each turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable

MOST_ABSENT = 20_000
ABSENT_FOR = 300.0
#: Clients choose the ids that are looked up, and absent ids are remembered. Gemini's ids are shorter.
LONGEST_ID = 256


class AbsentIds:
    """A signature is stored before the client learns the id of its call, so an absent id can be skipped for a
    while. Not forever, since two upstreams may use the same id."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.known: dict[tuple[str, str, str], float] = {}  #: until when to skip each

    def wanted(self, owner: str, family: str, call_ids: Iterable[str]) -> list[str]:
        """The ids that the store should be asked for."""
        now, known = self._now(), self.known
        return [
            call_id
            for call_id in call_ids
            if len(call_id) <= LONGEST_ID and known.get((owner, family, call_id), 0.0) < now
        ]

    def add(self, owner: str, family: str, call_ids: Iterable[str]) -> None:
        if len(self.known) >= MOST_ABSENT:
            self.known.clear()
        until = self._now() + ABSENT_FOR
        self.known.update({(owner, family, call_id): until for call_id in call_ids})

    def forget(self, owner: str, family: str, call_ids: Iterable[str]) -> None:
        for call_id in call_ids:
            self.known.pop((owner, family, call_id), None)
