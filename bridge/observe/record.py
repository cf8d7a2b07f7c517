"""One request's story, filled in by whoever knows a part of it and told once, at its end."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridge.errors import BridgeError, ClientDisconnected, InternalError, UpstreamError
from bridge.gemini.types import Usage

log = logging.getLogger("bridge.access")

CLIENT_LEFT = "client_left"
#: Failures that are not the bridge's answer to what the client sent.
NO_REFUSALS = (ClientDisconnected, InternalError, UpstreamError)
LOST = "lost"


class Tokens(NamedTuple):
    """Each token once: the four add up."""

    input: int  #: not cached
    cached: int
    output: int  #: the answer alone
    reasoning: int

    @classmethod
    def of(cls, usage: Usage | None) -> Tokens:
        if usage is None or not usage.raw:
            return NO_TOKENS
        cached = min(usage.cached, usage.prompt)
        return cls(usage.prompt - cached, cached, usage.output - usage.thoughts, usage.thoughts)


NO_TOKENS = Tokens(0, 0, 0, 0)


@dataclass(slots=True)
class Record:
    request_id: str
    method: str
    path: str
    observers: tuple[Observer, ...] = ()  #: each is told once, when all is known
    settlers: tuple[Observer, ...] = ()  #: told before all others, of this request alone
    key: str | None = None  #: the name of the client's key
    client: str | None = None  #: the program, as it names itself
    traceparent: str | None = None  #: the trace that this request is a part of, as the client wrote it
    session: str | None = None  #: the client's own id of it
    agent: str | None = None  #: a sub-agent of that session, by the client's own id
    conversation: str = ""  #: a digest: bridge/gemini/conversation.py
    protocol: str | None = None
    model: str | None = None  #: as the client named it
    upstream_model: str | None = None
    model_version: str | None = None  #: the model that answered, as the upstream names it
    stream: bool = False
    status: int = 0
    outcome: str = (
        "completed"  #: completed, failed, client_left, or lost: the client waited for an end in vain
    )
    error: str | None = None
    refused: bool = False  #: before the model was asked, for what the client sent or may not do
    rule: str | None = None  #: of the administrator's, that refused it
    reason: str | None = None  #: the message, where it is the operator's to act on
    usage: Usage | None = None
    service_tier: str | None = None  #: the one that served, as far as it is known
    finish_reasons: tuple[str, ...] = ()  #: as Gemini named them
    #: What was repaired in the history or could not be carried, counted by name. What a client chose stands
    #: behind a colon.
    notes: Counter[str] = field(default_factory=Counter)
    _started: float = field(default_factory=time.monotonic)
    _asked: float | None = None
    _waited: float | None = None  #: for the client to send, and for calls that are no streams
    upstream_wait: float | None = None  #: seconds that the answer's stream spent on waiting for the upstream
    _first_byte: float | None = None
    _tokens: Tokens | None = None
    _told: bool = False

    def unfinished(self, *, lost: bool) -> None:
        """The answer has no end: the client did not wait for it, or else we lost it."""
        self.outcome = LOST if lost else CLIENT_LEFT

    def failed(self, error: BridgeError) -> None:
        self.outcome, self.error = "failed", error.kind
        if error.kind == CLIENT_LEFT:
            self.outcome, self.error = CLIENT_LEFT, None
        self.refused = not self.asked_model and not isinstance(error, NO_REFUSALS)
        self.rule = error.rule
        # What a client did wrong may be told in the words of its own prompt; that stays out of the log.
        self.reason = (error.logged or error.message) if error.status >= 500 else None

    def note(self, names: Iterable[str]) -> None:
        """Count each of them; as often as it says, where it is a Counter."""
        if names:  # nearly never
            self.notes.update(names)

    def first_byte(self) -> None:
        if self._first_byte is None:
            self._first_byte = time.monotonic()

    def asks_model(self) -> None:
        """The request is about to leave for the model; it may do so more than once."""
        if self._asked is None:
            self._asked = time.monotonic()

    @property
    def asked_model(self) -> bool:
        return self._asked is not None

    @property
    def seconds_to_asking(self) -> float | None:
        return None if self._asked is None else self._asked - self._started

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """For the client or the upstream: what passes meanwhile is not the bridge's doing."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._waited = (self._waited or 0.0) + time.monotonic() - began

    @property
    def overhead(self) -> float | None:
        """Seconds that the bridge itself has used so far; None where it waited for nobody."""
        if self._waited is None and self.upstream_wait is None:
            return None
        return max(self.seconds - (self._waited or 0.0) - (self.upstream_wait or 0.0), 0.0)

    @property
    def tokens(self) -> Tokens:
        """To be asked for when all is known: they are counted once."""
        if self._tokens is None:
            self._tokens = Tokens.of(self.usage)
        return self._tokens

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
        if log.isEnabledFor(level):  # which file and line it comes from is known, and not looked for
            log.handle(
                log.makeRecord(log.name, level, __file__, 0, "request", (), None, extra=self._fields())
            )
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
            "client": self.client,
            "session": self.session,
            "agent": self.agent,
            "conversation": self.conversation or None,
            "method": self.method,
            "path": self.path,
            "protocol": self.protocol,
            "model": self.model,
            "upstream_model": self.upstream_model,
            "model_version": self.model_version,
            "service_tier": self.service_tier,
            "stream": self.stream or None,
            "status": self.status,
            "outcome": self.outcome,
            "error": self.error,
            "rule": self.rule,
            "reason": self.reason,
            "duration_ms": _milliseconds(self.seconds),
            "first_byte_ms": _milliseconds(self.seconds_to_first_byte),
            "finish": ", ".join(self.finish_reasons) or None,
            **self._token_fields(),
            "notes": dict(self.notes) or None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _token_fields(self) -> dict[str, int]:
        if self.usage is None or not self.usage.raw:
            return {}
        tokens = self.tokens
        return {
            "input_tokens": tokens.input + tokens.cached,
            "cached_tokens": tokens.cached,
            "output_tokens": tokens.output + tokens.reasoning,
            "reasoning_tokens": tokens.reasoning,
        }


#: What wants to know how each request ended.
Observer = Callable[[Record], None]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
