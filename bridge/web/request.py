"""The current request, with the objects that the bridge attaches to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import cast

import flask
from flask import request
from werkzeug.datastructures import ImmutableMultiDict, MultiDict
from werkzeug.utils import cached_property

from bridge.access.authentication import Identity
from bridge.errors import BridgeError
from bridge.interruption import Interruption
from bridge.observe.record import Record
from bridge.rate_limit_status import RateLimitStatus

NO_QUERY: MultiDict[str, str] = ImmutableMultiDict()


class Request(flask.Request):
    record: Record
    #: Releases everything that the request holds: at its teardown, or at the end of a streamed body.
    resources: ExitStack
    identity = Identity()  #: anonymous until the request is authenticated
    allowances: Sequence[RateLimitStatus] = ()  #: what the limits still allow the client
    allowances_if_refused: Sequence[
        RateLimitStatus
    ] = ()  #: the same if the request is refused and not counted
    cost_limited = False  #: whether a cost limit applies
    recorded = ""  #: what the client is told about its recording; empty if there is none
    #: Returns the error if a budget of the client is used up by now.
    spent: Callable[[], BridgeError | None] = staticmethod(lambda: None)
    interruption = Interruption()  #: set if the answer must end early
    #: Counts a request that the bridge makes for this one against the limits of its key.
    book_request: Callable[[Record], None] = staticmethod(lambda _record: None)

    @cached_property
    def args(self) -> MultiDict[str, str]:
        return super().args if self.query_string else NO_QUERY


def current_request() -> Request:
    """Call this once in a function: Flask's `request` proxy repeats the lookup at every attribute access."""
    return cast(Request, request._get_current_object())  # type: ignore[attr-defined]
