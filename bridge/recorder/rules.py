"""The rules that say which requests are recorded, as one worker knows them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from bridge.gemini.conversation import session_in_metadata
from bridge.gemini.types import JsonObject
from bridge.observe.record import Record
from bridge.periodic_thread import call_periodically
from bridge.settings.sections import RECORDING_LEVELS
from bridge.state.errors import StorageError
from bridge.state.flight_store import FlightRule, FlightStore

log = logging.getLogger(__name__)

HEADER = "x-bridge-record"
WANTED = "1"
BETWEEN_LOOKS = 1.0


class ActiveRules:
    """Read once a second in a thread, so no request waits for the store. While the store cannot be read, the
    rules that are known apply until they end."""

    def __init__(self, store: FlightStore) -> None:
        self._store = store
        self._rules: tuple[FlightRule, ...] = ()
        self._readable = True
        self.refresh()
        call_periodically(self, ActiveRules.refresh, BETWEEN_LOOKS)

    def refresh(self) -> None:
        try:
            self._rules = tuple(self._store.rules())
            self._readable = True
        except StorageError as error:
            if self._readable:
                log.warning("the rules of the flight recorder cannot be read", extra={"reason": error.reason})
            self._readable = False

    def matching(
        self, record: Record, headers: Mapping[str, str], model: str, body: JsonObject
    ) -> FlightRule | None:
        """The rule with the highest level of those that match."""
        if not self._rules:
            return None
        session = record.session or getattr(session_in_metadata(body), "id", None)
        facts = {"key": record.key, "session": session, "model": model}
        wanted = headers.get(HEADER) == WANTED
        return _highest(rule for rule in self._rules if _matches(rule, facts, wanted=wanted))


def _matches(rule: FlightRule, facts: Mapping[str, str | None], *, wanted: bool) -> bool:
    named = {"key": rule.key, "session": rule.session, "model": rule.model}
    same = all(value is None or facts[name] == value for name, value in named.items())
    return same and (wanted or not rule.header) and rule.ends > time.time()


def _highest(rules: Iterable[FlightRule]) -> FlightRule | None:
    return max(rules, key=lambda rule: RECORDING_LEVELS.index(rule.level), default=None)
