"""Everything that can go wrong, as one tree.

    BridgeError                      kind            status
    ├ InvalidRequest                 invalid_request    400   the client's body, with the field in `param`
    │ ├ ContextOverflow              context_overflow   400   the conversation is too long for the model
    │ ├ OutputLimitTooLow            invalid_request    400   thoughts used up all tokens of the answer
    │ └ RequestTooLarge              too_large          413
    ├ NotAuthorized                  unauthorized       401   no valid key; in which way is not told
    ├ NotAllowed                     forbidden          403   the key is good, but not for this
    ├ LimitReached                   limited            429   a limit that the administrator set
    │ └ BudgetSpent                  budget_spent       429   one that will not open soon: waiting is no use
    ├ SlowRequest                    slow_request       408   the client took too long to send its body
    ├ ClientDisconnected                     client_left        499   nobody waits for the answer any more
    ├ UnknownRoute                   unknown_route      404
    │ ├ UnknownModel                 unknown_model      404
    │ └ UnknownAnswer                unknown_answer     404   no such stored answer, or somebody else's
    ├ MethodNotAllowed               method             405
    │ └ UpgradeRefused               upgrade            426   no web sockets here
    ├ TooBusy                        busy               503   the bridge has no place left for this now
    │ └ ShuttingDown                 shutting_down      503   it stops, and could not wait for this
    ├ UpstreamError                                           raised only where an upstream is spoken to
    │ ├ UpstreamRefused              refused            400   Gemini found the request wrong
    │ │ ├ SignaturesRefused          refused            400   over a thought signature
    │ │ ├ SchemaRefused              refused            400   over the schema of a tool
    │ │ ├ ThinkingRefused            refused            400   over how much it shall think
    │ │ ├ SamplingRefused            refused            400   over temperature or its kin
    │ │ ├ StoreRefused               refused            400   over the field that says what Google may keep
    │ │ └ ServiceTierRefused         refused            400   over the service tier
    │ ├ UpstreamMisconfigured        misconfigured      502   the operator's key, project or address is wrong
    │ ├ UpstreamRateLimited          rate_limited       429
    │ ├ UpstreamOverloaded           overloaded         503
    │ ├ UpstreamTimeout              timeout            504
    │ ├ UpstreamUnreachable          unreachable        502
    │ ├ UpstreamTruncated            truncated          502   the answer stopped without a finish reason
    │ └ UpstreamMalformed            malformed          502   the answer cannot be used: bad JSON, bad call
    └ InternalError                  internal           500   our bug
      └ IllegalTransition            internal           500   an event machine was about to break its protocol

A message never holds a key, a prompt or a token: it may be shown to the client and written to the log.
This module knows no HTTP framework, no protocol and no upstream.
"""

from __future__ import annotations

import errno
import math
from typing import ClassVar

#: Clients sleep as long as they are told; none should be sent to sleep for hours by a daily quota.
LONGEST_RETRY_AFTER = 300


class BridgeError(Exception):
    """The root; only its descendants are raised."""

    kind: ClassVar[str]
    status: ClassVar[int]
    #: Clients repeat every 5xx; some faults only a person can mend.
    retryable: ClassVar[bool] = True
    usual_wait: ClassVar[float | None] = None  #: for when nobody said how long to wait
    longest_wait: ClassVar[float] = LONGEST_RETRY_AFTER
    #: What the log says instead, where the message has words of the upstream's: they may repeat a prompt.
    logged: str | None = None

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        retry_after: float | None = None,
        rule: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.rule = rule  #: of the administrator's, that refused the request; for the log and the usage

    @property
    def retry_after_seconds(self) -> int | None:
        """What the `retry-after` header says: a whole number, rounded up and capped."""
        wait = self.usual_wait if self.retry_after is None else self.retry_after
        return None if wait is None else max(1, math.ceil(min(wait, self.longest_wait)))


#: What the system says when a process has no file descriptor left.
NO_DESCRIPTORS = frozenset((errno.EMFILE, errno.ENFILE))


class InvalidRequest(BridgeError):
    kind, status = "invalid_request", 400


class ContextOverflow(InvalidRequest):
    """The message is Google's. Agents know an overflow by the words of the vendor they were written for, so
    each protocol tells it in those, with the numbers where Google named them."""

    kind = "context_overflow"
    tokens: int | None = None  #: of the conversation
    limit: int | None = None  #: of the model


class OutputLimitTooLow(InvalidRequest):
    pass


class RequestTooLarge(InvalidRequest):
    kind, status = "too_large", 413


class NotAuthorized(BridgeError):
    kind, status = "unauthorized", 401
    retryable = False


class NotAllowed(BridgeError):
    kind, status = "forbidden", 403
    retryable = False


class LimitReached(BridgeError):
    kind, status = "limited", 429
    usual_wait = 60.0


class BudgetSpent(LimitReached):
    kind = "budget_spent"
    retryable = False
    longest_wait = math.inf  # true, since clients are told not to wait for it


class SlowRequest(BridgeError):
    kind, status = "slow_request", 408


class ClientDisconnected(BridgeError):
    kind, status = "client_left", 499


class UnknownRoute(BridgeError):
    kind, status = "unknown_route", 404


class UnknownModel(UnknownRoute):
    kind = "unknown_model"


class UnknownAnswer(UnknownRoute):
    kind = "unknown_answer"


class MethodNotAllowed(BridgeError):
    kind, status = "method", 405


class UpgradeRefused(MethodNotAllowed):
    kind, status = "upgrade", 426


class TooBusy(BridgeError):
    kind, status = "busy", 503
    usual_wait = 10.0


class ShuttingDown(TooBusy):
    kind = "shutting_down"
    usual_wait = 1.0  # another worker, or the next start, takes it


class UpstreamError(BridgeError):
    """Raised only where an upstream is spoken to, and by the Turn that judges how its answer ended."""


class UpstreamRefused(UpstreamError):
    kind, status = "refused", 400


class SignaturesRefused(UpstreamRefused):
    pass


class SchemaRefused(UpstreamRefused):
    pass


class ThinkingRefused(UpstreamRefused):
    pass


class SamplingRefused(UpstreamRefused):
    pass


class StoreRefused(UpstreamRefused):
    pass


class ServiceTierRefused(UpstreamRefused):
    pass


class UpstreamMisconfigured(UpstreamError):
    kind, status = "misconfigured", 502
    retryable = False


class UpstreamRateLimited(UpstreamError):
    kind, status = "rate_limited", 429
    usual_wait = 10.0  # without a wait some clients give up at once


class UpstreamOverloaded(UpstreamError):
    kind, status = "overloaded", 503


class UpstreamTimeout(UpstreamError):
    kind, status = "timeout", 504


class UpstreamUnreachable(UpstreamError):
    kind, status = "unreachable", 502


class UpstreamTruncated(UpstreamError):
    kind, status = "truncated", 502


class UpstreamMalformed(UpstreamError):
    kind, status = "malformed", 502


class InternalError(BridgeError):
    kind, status = "internal", 500


class IllegalTransition(InternalError):
    pass


def concrete_errors() -> frozenset[type[BridgeError]]:
    """Every class that may be raised: what a protocol's table of error types must cover."""
    found: set[type[BridgeError]] = set()
    waiting: list[type[BridgeError]] = [BridgeError]
    while waiting:
        children = waiting.pop().__subclasses__()
        waiting.extend(children)
        found.update(child for child in children if hasattr(child, "kind"))
    return frozenset(found)
