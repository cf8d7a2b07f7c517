"""Everything that can go wrong, as one tree.

    BridgeError                      kind            status
    ├ InvalidRequest                 invalid_request    400   the client's body, with the field in `param`
    │ ├ InvalidCompaction            invalid_request    400   a summary in the body, or the wish for one
    │ ├ ContextOverflow              context_overflow   400   the conversation is too long for the model
    │ ├ UnknownPreviousAnswer        unknown_previous   400   the stored answer to continue does not exist
    │ ├ OutputLimitTooLow            invalid_request    400   thoughts used up all tokens of the answer
    │ └ RequestTooLarge              too_large          413
    ├ NotAuthorized                  unauthorized       401   no valid key; the message hides the reason
    ├ NotAllowed                     forbidden          403   the key is valid, but may not do this
    ├ LimitReached                   limited            429   a limit that the administrator set was reached
    │ └ BudgetSpent                  budget_spent       429   a budget is used up; waiting does not help
    ├ SlowRequest                    slow_request       408   the client took too long to send its body
    ├ ClientDisconnected             client_left        499   the client disconnected
    ├ UnknownRoute                   unknown_route      404
    │ ├ UnknownModel                 unknown_model      404
    │ └ UnknownAnswer                unknown_answer     404   no such stored answer, or another owner's
    ├ MethodNotAllowed               method             405
    │ └ UpgradeRefused               upgrade            426   WebSocket is not supported
    ├ TooBusy                        busy               503   the bridge has no free slot
    │ └ ShuttingDown                 shutting_down      503   the bridge is stopping
    ├ UpstreamError                                           raised by the upstream layer and by the Turn
    │ ├ UpstreamRefused              refused            400   Gemini rejected the request
    │ │ ├ SignaturesRefused          refused            400   because of a thought signature
    │ │ ├ SchemaRefused              refused            400   because of the schema of a tool
    │ │ ├ StrictCallsRefused         refused            400   because calls must follow their schema
    │ │ ├ ToolCombinationRefused     refused            400   because of Google's tools beside functions
    │ │ ├ ThinkingRefused            refused            400   because of the thinking settings
    │ │ ├ SamplingRefused            refused            400   because of a sampling setting
    │ │ ├ StoreRefused               refused            400   because of the field `store`
    │ │ └ ServiceTierRefused         refused            400   because of the service tier
    │ ├ UpstreamMisconfigured        misconfigured      502   the operator's key, project or base URL is wrong
    │ ├ UpstreamRateLimited          rate_limited       429
    │ ├ UpstreamOverloaded           overloaded         503
    │ ├ UpstreamTimeout              timeout            504
    │ ├ UpstreamUnreachable          unreachable        502
    │ ├ UpstreamTruncated            truncated          502   the answer ended without a finish reason
    │ └ UpstreamMalformed            malformed          502   the answer is unusable: bad JSON or a bad call
    │   └ AgentFailed                malformed          502   an agent ended without a result
    └ InternalError                  internal           500   a bug in the bridge
      └ IllegalTransition            internal           500   an event machine would have broken its protocol

A message never contains a key, a prompt or a token, because clients see it and the log records it.
This module does not depend on an HTTP framework, a protocol or an upstream.
"""

from __future__ import annotations

import errno
import math
from typing import ClassVar

#: Clients obey `retry-after`. This cap keeps a daily quota from stopping a client for hours.
LONGEST_RETRY_AFTER = 300


class BridgeError(Exception):
    """Base class of all errors. Only subclasses are raised."""

    kind: ClassVar[str]
    status: ClassVar[int]
    #: Clients retry every 5xx. False: a retry cannot help, because the operator must fix the cause.
    retryable: ClassVar[bool] = True
    default_retry_after: ClassVar[float | None] = None  #: seconds, if the upstream gave no retry delay
    max_retry_after: ClassVar[float] = LONGEST_RETRY_AFTER
    #: Text for the log, if the message quotes the upstream: the upstream may quote the prompt.
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
        self.rule = rule  #: the administrator's rule that rejected the request; for the log and the usage

    @property
    def retry_after_seconds(self) -> int | None:
        """The value of the `retry-after` header: whole seconds, rounded up and capped."""
        wait = self.default_retry_after if self.retry_after is None else self.retry_after
        return None if wait is None else max(1, math.ceil(min(wait, self.max_retry_after)))


#: Error numbers for "no file descriptor left" in this process or in the whole system.
NO_DESCRIPTORS = frozenset((errno.EMFILE, errno.ENFILE))


class InvalidRequest(BridgeError):
    kind, status = "invalid_request", 400


class ContextOverflow(InvalidRequest):
    """The conversation does not fit into the model's context window. The message is Google's.

    Agents detect an overflow by the sentence of their own vendor, so each protocol sends that
    sentence instead, with the numbers if Google gave them."""

    kind = "context_overflow"
    tokens: int | None = None  #: tokens in the conversation
    limit: int | None = None  #: tokens that the model accepts


class InvalidCompaction(InvalidRequest):
    """The client sends a summary back changed or in the wrong place, or its conversation cannot be
    summarised."""

    code: str = ""  #: what is wrong, for programs: Anthropic's word


class UnknownPreviousAnswer(InvalidRequest):
    kind = "unknown_previous"


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
    default_retry_after = 60.0


class BudgetSpent(LimitReached):
    kind = "budget_spent"
    retryable = False
    max_retry_after = math.inf  # no cap is needed: clients are told not to retry


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
    default_retry_after = 10.0


class ShuttingDown(TooBusy):
    kind = "shutting_down"
    default_retry_after = 1.0  # another worker, or this one after its restart, serves the retry


class UpstreamError(BridgeError):
    """Raised only by the upstream layer, and by the Turn if the answer ended badly."""


class UpstreamRefused(UpstreamError):
    kind, status = "refused", 400


class SignaturesRefused(UpstreamRefused):
    pass


class SchemaRefused(UpstreamRefused):
    pass


class ToolCombinationRefused(UpstreamRefused):
    pass


class StrictCallsRefused(UpstreamRefused):
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
    default_retry_after = 10.0  # without a retry delay some clients give up at once


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


class AgentFailed(UpstreamMalformed):
    retryable = False  # the same question would run into the same limit


class InternalError(BridgeError):
    kind, status = "internal", 500


class IllegalTransition(InternalError):
    pass


def concrete_errors() -> frozenset[type[BridgeError]]:
    """Every class that may be raised. A protocol's table of error types must cover all of them."""
    found: set[type[BridgeError]] = set()
    waiting: list[type[BridgeError]] = [BridgeError]
    while waiting:
        children = waiting.pop().__subclasses__()
        waiting.extend(children)
        found.update(child for child in children if hasattr(child, "kind"))
    return frozenset(found)
