"""What a guard is: a pure function on a request or a call, written once for every protocol and upstream.

A guard returns the very value it was given if there is nothing to do. When in doubt it does nothing.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from bridge.gemini.types import FunctionCall, GenerateRequest
from bridge.settings.guards import GuardSettings


class Blocked(NamedTuple):
    """A call that is not forwarded, and what the model is told instead."""

    reason: str


class NeedsApproval(NamedTuple):
    """A call that somebody should approve. It is forwarded and counted: the client's own approval decides."""

    call: FunctionCall


class NotUnderstood(NamedTuple):
    """A call that a guard should look at and can make nothing of. It passes unchanged, and is counted."""

    call: FunctionCall


class ShortCircuit(NamedTuple):
    """A request that is answered at once, without the upstream."""

    text: str


class Guard:
    """Holds settings only, so one serves all requests."""

    name: ClassVar[str]
    argv_only: ClassVar[bool] = False  #: it looks only at shells that take a list of words

    def __init__(self, settings: GuardSettings) -> None:
        self.settings = settings

    def on_request(self, request: GenerateRequest) -> GenerateRequest | ShortCircuit:
        return request

    def on_call(self, call: FunctionCall) -> FunctionCall | Blocked | NeedsApproval | NotUnderstood:
        return call
