"""The record of one request. Several layers fill it in, and observers receive it once, when the request
ends."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridge.errors import BridgeError, ClientDisconnected, InternalError, UpstreamError
from bridge.gemini.context_steps import StepTaken
from bridge.gemini.types import Usage
from bridge.settings.routes import Target
from bridge.state.bridges import LateUsage

log = logging.getLogger("bridge.access")

CLIENT_LEFT = "client_left"
#: Failures that are not caused by the client's request.
NO_REFUSALS = (ClientDisconnected, InternalError, UpstreamError)
LOST = "lost"
RETRY = "retry."  #: notes on attempts that failed begin so
FALLBACK = "fallback"  #: the note for each model that was asked in place of the one before
MALFORMED = "malformed"  #: the kind of the error for an answer that is malformed or empty
CACHE_HIT = "hit"  #: the value of `cache` for an answer from the request cache


class Tokens(NamedTuple):
    """The tokens of a request. Each token is in one of the four numbers."""

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


class ArmOfRequest(NamedTuple):
    """The place of a request in an experiment."""

    experiment: str
    arm: str
    assignment: str  #: of `Assignment` in bridge/state/usage_store.py

    def __str__(self) -> str:
        mark = f"; {self.assignment}" if self.assignment else ""
        return f"{self.experiment}; arm={self.arm}{mark}"


@dataclass(slots=True)
class Record:
    request_id: str
    method: str
    path: str
    observers: tuple[Observer, ...] = ()  #: called once each, when the record is complete
    keepers: tuple[Observer, ...] = ()  #: called first: the end of the process must not lose what they write
    settlers: tuple[Observer, ...] = ()  #: of this request only; called before the observers
    owed: Callable[[Record], LateUsage | None] | None = None  #: what the first settler books, for the keepers
    key: str | None = None  #: the name of the client's key
    client: str | None = None  #: the program's name, from its User-Agent
    traceparent: str | None = None  #: the trace of this request, as the client wrote it
    session: str | None = None  #: the client's own id of its session
    agent: str | None = None  #: a sub-agent of that session, by the client's own id
    conversation: str = ""  #: a digest: bridge/gemini/conversation.py
    protocol: str | None = None
    model: str | None = None  #: as the client named it
    upstream: str | None = None  #: its name, if there are several upstreams
    upstream_model: str | None = None
    model_version: str | None = None  #: the model that answered, as the upstream names it
    stream: bool = False
    status: int = 0
    outcome: str = (
        "completed"  #: completed, failed, client_left, or lost: the stream ended without its last event
    )
    error: str | None = None
    refused: bool = False  #: before the model was asked, because of the request or its permissions
    rule: str | None = None  #: the administrator's rule that refused the request
    reason: str | None = None  #: the error message, if the operator can act on it
    error_message: str | None = None  #: as the client got it; it may quote a prompt, so it is not logged
    usage: Usage | None = None
    cache: str | None = None  #: of the request cache: hit, miss, refresh, off; None if nothing asked for it
    cache_age: float = 0.0  #: seconds since the cached answer was made
    saved_usage: Usage | None = None  #: of a cached answer; it costs nothing, so `usage` leaves it out
    assignment: ArmOfRequest | None = None  #: in an experiment
    #: Failed attempts, each with its upstream: also those that another attempt replaced.
    upstream_errors: list[tuple[str, str]] = field(default_factory=list)
    service_tier: str | None = None  #: the tier that served the request, if it is known
    finish_reasons: tuple[str, ...] = ()  #: as Gemini named them
    #: Counts of repairs and of values that could not be converted, by name. A text that the client chose
    #: follows after a colon.
    notes: Counter[str] = field(default_factory=Counter)
    losses: tuple[str, ...] = ()  #: the names of what was dropped from the request; `notes` counts them too
    estimated_tokens: int = 0  #: of the prompt, if it was estimated
    expected_tokens: int = 0  #: the estimate, with what was learned of the model
    edits_taken: tuple[StepTaken, ...] = ()  #: what the context edits changed
    steps_taken: tuple[StepTaken, ...] = ()  #: what the steps changed for the model that was asked last
    steps_in_shadow: tuple[StepTaken, ...] = ()  #: what steps would have changed
    _started: float = field(default_factory=time.monotonic)
    _asked: float | None = None
    _waited: float | None = None  #: for the client's body, and for upstream calls that are not streams
    upstream_wait: float | None = None  #: seconds for which the answer's stream waited for the upstream
    _first_byte: float | None = None
    _tokens: Tokens | None = None
    _told: bool = False

    def unfinished(self, *, lost: bool) -> None:
        """The answer did not end: the client disconnected, or the bridge lost the rest."""
        self.outcome = LOST if lost else CLIENT_LEFT

    def failed(self, error: BridgeError) -> None:
        self.outcome, self.error, self.error_message = "failed", error.kind, error.message
        if error.kind == CLIENT_LEFT:
            self.outcome, self.error = CLIENT_LEFT, None
        self.refused = not self.asked_model and not isinstance(error, NO_REFUSALS)
        self.rule = error.rule
        # The message of a client's error may quote its prompt, which must not be in the log.
        self.reason = (error.logged or error.message) if error.status >= 500 else None

    def note(self, names: Iterable[str]) -> None:
        """Count each name once, or as often as a Counter says."""
        if names:  # rare
            self.notes.update(names)

    def count(self, usage: Usage | None) -> None:
        """Count the usage of the answer, or of one of its parts."""
        if usage is not None and self.cache == CACHE_HIT:
            self.saved_usage = (self.saved_usage or Usage()) + usage
        elif usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def first_byte(self) -> None:
        if self._first_byte is None:
            self._first_byte = time.monotonic()

    def asks_model(self) -> None:
        """Called before each attempt to send the request to the model."""
        if self._asked is None:
            self._asked = time.monotonic()

    @property
    def target_name(self) -> str | None:
        """The upstream's model, with the name of the upstream if models.toml would need it."""
        if self.upstream_model is None or self.upstream is None:
            return self.upstream_model
        return str(Target(self.upstream, self.upstream_model))

    @property
    def asked_model(self) -> bool:
        return self._asked is not None

    @property
    def seconds_to_asking(self) -> float | None:
        return None if self._asked is None else self._asked - self._started

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Measure time that the bridge waits for the client or the upstream."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._waited = (self._waited or 0.0) + time.monotonic() - began

    @property
    def overhead(self) -> float | None:
        """Seconds that the bridge itself has used so far; None if it never waited for another program."""
        if self._waited is None and self.upstream_wait is None:
            return None
        return max(self.seconds - (self._waited or 0.0) - (self.upstream_wait or 0.0), 0.0)

    @property
    def tokens(self) -> Tokens:
        """Only valid when the usage is complete: the numbers are computed once."""
        if self._tokens is None:
            self._tokens = Tokens.of(self.usage)
        return self._tokens

    @property
    def malformed_answers(self) -> int:
        """The malformed answers of the model, also those that a retry replaced."""
        return self.notes[f"{RETRY}{MALFORMED}"] + (self.error == MALFORMED)

    @property
    def context_steps(self) -> tuple[StepTaken, ...]:
        """How the conversation was shortened."""
        return self.edits_taken + self.steps_taken

    @property
    def counted_prompt(self) -> int | None:
        """The upstream's count of an estimated prompt; None if unknown, or if it covers several attempts."""
        if not self.estimated_tokens or self.usage is None:
            return None
        if any(note.startswith(RETRY) for note in self.notes):
            return None
        return self.usage.prompt - self.usage.tool_prompt or None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def seconds_to_first_byte(self) -> float | None:
        return None if self._first_byte is None else self._first_byte - self._started

    def tell(self) -> None:
        """Write the log line and call the observers. Only the first call has an effect."""
        if self._told:
            return
        self._told = True
        for early in (*self.keepers, *self.settlers):
            self._tell(early)
        level = logging.WARNING if self.reason else logging.INFO
        if log.isEnabledFor(level):  # faster than log.log, which searches the stack for the caller
            log.handle(
                log.makeRecord(log.name, level, __file__, 0, "request", (), None, extra=self._fields())
            )
        for observer in self.observers:
            self._tell(observer)

    def _tell(self, observer: Observer) -> None:
        """Call an observer. Its errors are logged: the request has ended and has its answer."""
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
            "upstream": self.upstream,
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
            "cache": self.cache,
            **self._experiment_fields(),
            "context": {step.name: step.changes for step in self.context_steps} or None,
            "finish": ", ".join(self.finish_reasons) or None,
            **self._token_fields(),
            "notes": dict(self.notes) or None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _experiment_fields(self) -> dict[str, str | None]:
        if self.assignment is None:
            return {}
        return {**self.assignment._asdict(), "assignment": self.assignment.assignment or None}

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


#: Called with the record of each request that has ended.
Observer = Callable[[Record], None]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
