"""One request's story, filled in by whoever knows a part of it and told once, at its end."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bridge.errors import BridgeError
from bridge.gemini.types import Usage

log = logging.getLogger("bridge.access")

CLIENT_LEFT = "client_left"


@dataclass(slots=True)
class Record:
    request_id: str
    method: str
    path: str
    observers: tuple[Observer, ...] = ()  #: each is told once, when all is known
    settlers: tuple[Observer, ...] = ()  #: told before all others, of this request alone
    key: str | None = None  #: the name of the client's key
    protocol: str | None = None
    model: str | None = None  #: as the client named it
    upstream_model: str | None = None
    stream: bool = False
    status: int = 0
    outcome: str = (
        "completed"  #: completed, failed, client_left, or lost: the client waited for an end in vain
    )
    error: str | None = None
    reason: str | None = None  #: the message, where it is the operator's to act on
    usage: Usage | None = None
    #: What was repaired in the history or could not be carried, counted by name.
    notes: Counter[str] = field(default_factory=Counter)
    _started: float = field(default_factory=time.monotonic)
    _first_byte: float | None = None
    _told: bool = False

    def unfinished(self, *, lost: bool) -> None:
        """The answer has no end: the client did not wait for it, or else we lost it."""
        self.outcome = "lost" if lost else CLIENT_LEFT

    def failed(self, error: BridgeError) -> None:
        self.outcome, self.error = "failed", error.kind
        if error.kind == CLIENT_LEFT:
            self.outcome, self.error = CLIENT_LEFT, None
        # What a client did wrong may be told in the words of its own prompt; that stays out of the log.
        self.reason = error.message if error.status >= 500 else None

    def first_byte(self) -> None:
        if self._first_byte is None:
            self._first_byte = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def seconds_to_first_byte(self) -> float | None:
        return None if self._first_byte is None else self._first_byte - self._started

    def tell(self) -> None:
        """Write the line and tell the observers, once: a stream may be closed by more than one hand."""
        if self._told:
            return
        self._told = True
        for settler in self.settlers:
            self._tell(settler)
        level = logging.WARNING if self.reason else logging.INFO
        log.log(level, "request", extra=self._fields())
        for observer in self.observers:
            self._tell(observer)

    def _tell(self, observer: Observer) -> None:
        """Whatever an observer runs into, the request is over and has its answer."""
        try:
            observer(self)
        except Exception:
            log.exception("observer failed", extra={"request_id": self.request_id})

    def _fields(self) -> dict[str, Any]:
        fields = {
            "request_id": self.request_id,
            "key": self.key,
            "method": self.method,
            "path": self.path,
            "protocol": self.protocol,
            "model": self.model,
            "upstream_model": self.upstream_model,
            "stream": self.stream or None,
            "status": self.status,
            "outcome": self.outcome,
            "error": self.error,
            "reason": self.reason,
            "duration_ms": _milliseconds(self.seconds),
            "first_byte_ms": _milliseconds(self.seconds_to_first_byte),
            **self._tokens(),
            "notes": dict(self.notes) or None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _tokens(self) -> dict[str, int]:
        if self.usage is None or not self.usage.raw:
            return {}
        return {
            "input_tokens": self.usage.prompt,
            "cached_tokens": self.usage.cached,
            "output_tokens": self.usage.output,
            "reasoning_tokens": self.usage.thoughts,
        }


#: What wants to know how each request ended.
Observer = Callable[[Record], None]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
