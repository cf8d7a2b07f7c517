"""Aborts running answers whose key was revoked. If the operator wishes, it also aborts answers whose key has
expired or has used up its budget.

One thread in each worker checks all running answers every second, so an answer itself only reads a flag.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from bridge.access.authentication import Authenticator, Identity
from bridge.access.limits import Limiter
from bridge.errors import BridgeError, NotAuthorized
from bridge.interruption import Interruption
from bridge.observe.record import Record
from bridge.periodic_thread import call_periodically

log = logging.getLogger(__name__)

BETWEEN_LOOKS = 1.0

#: Problems that an administrator caused on purpose. They always abort answers.
_REVOKED: Mapping[str, str] = {
    "key_revoked": "The key of this request was revoked while the answer was on its way.",
    "key_rotated": "The key of this request was replaced while the answer was on its way.",
    "key_unknown": "The key of this request was removed while the answer was on its way.",
}
_EXPIRED = "The key of this request has expired while the answer was on its way."


class _Answer(NamedTuple):
    identity: Identity
    interruption: Interruption


class RunningAnswers:
    def __init__(self, authenticator: Authenticator, limiter: Limiter, cut_streams: bool) -> None:
        self._authenticator = authenticator
        self._limiter = limiter
        self._cut_streams = cut_streams
        self._answers: dict[int, _Answer] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, identity: Identity, record: Record) -> Interruption:
        """Watch an answer until its request ends."""
        answer = _Answer(identity, Interruption())
        if identity.key is None and not self._cut_streams:
            return answer.interruption
        with self._lock:
            self._answers[id(answer)] = answer
            if self._thread is None:
                self._thread = call_periodically(self, RunningAnswers.look, BETWEEN_LOOKS)
        record.settlers = (*record.settlers, partial(self._forget, answer))
        return answer.interruption

    def _forget(self, answer: _Answer, _record: Record) -> None:
        with self._lock:
            self._answers.pop(id(answer), None)

    def look(self) -> None:
        """Interrupt the answers that are no longer permitted."""
        with self._lock:
            answers = list(self._answers.values())
        reasons: dict[Identity, BridgeError | None] = {}
        try:
            for identity, interruption in answers:
                if identity not in reasons:
                    reasons[identity] = self._reason(identity)
                interruption.error = interruption.error or reasons[identity]
        except Exception:  # the thread must not end
            log.exception("running answers cannot be checked")

    def _reason(self, identity: Identity) -> BridgeError | None:
        problem = self._authenticator.recheck(identity)
        if revoked := _REVOKED.get(problem or ""):
            return NotAuthorized(revoked)
        if not self._cut_streams:
            return None
        return NotAuthorized(_EXPIRED) if problem == "key_expired" else self._limiter.spent(identity.key)
