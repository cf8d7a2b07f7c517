"""The request that is being served, and what the bridge knows of it beside its own words."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import cast

import flask
from flask import request
from werkzeug.datastructures import ImmutableMultiDict, MultiDict
from werkzeug.utils import cached_property

from bridge.access.authentication import Identity
from bridge.interruption import Interruption
from bridge.observe.record import Record
from bridge.rate_limit_status import RateLimitStatus

NO_QUERY: MultiDict[str, str] = ImmutableMultiDict()


class Request(flask.Request):
    record: Record
    #: Releases everything that the request holds, in one place: at its teardown, or where the body ends that
    #: took it over.
    resources: ExitStack
    identity = Identity()  #: of nobody, until the request is authenticated
    allowances: Sequence[RateLimitStatus] = ()  #: what limits leave to whoever asks
    allowances_if_refused: Sequence[RateLimitStatus] = ()  #: a refused request uses nothing up
    cost_limited = False  #: one of them is on cost
    interruption = Interruption()  #: says if the answer must end early

    @cached_property
    def args(self) -> MultiDict[str, str]:
        return super().args if self.query_string else NO_QUERY


def current_request() -> Request:
    """To be asked for once in a function: Flask's own `request` looks for it again at every touch."""
    return cast(Request, request._get_current_object())  # type: ignore[attr-defined]
