"""Limits how often somebody can try to sign in from one address."""

from __future__ import annotations

from bridge.settings.limits import Limits
from bridge.state.errors import StorageError
from bridge.state.ledger import Ledger, LimitedSubject

PER_MINUTE = 10


class SignIns:
    """The attempts are counted in the ledger, so they count on all workers and machines."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def allowed(self, client: str) -> bool:
        """Count an attempt. It is allowed if the ledger cannot be used, because nobody can guess a key."""
        subject = LimitedSubject(f"sign-in:{client}", "this address", Limits(requests_per_minute=PER_MINUTE))
        try:
            decision = self._ledger.enter([subject])
            if decision.booking is not None:
                self._ledger.leave(decision.booking, 0, 0.0)
        except StorageError:
            return True
        return decision.booking is not None
