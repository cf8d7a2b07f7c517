"""The interface of guards: pure functions on a request or a call, independent of protocol and upstream.

A guard returns the same object if it changes nothing. When in doubt it changes nothing.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from bridge.gemini.types import FunctionCall, GenerateRequest
from bridge.settings.guards import GuardSettings


class Blocked(NamedTuple):
    """A call that is not forwarded, and the text that replaces it."""

    reason: str


class NeedsApproval(NamedTuple):
    """A call that needs approval. It is forwarded and counted; the client asks its user."""

    call: FunctionCall


class NotUnderstood(NamedTuple):
    """A call that the guard cannot interpret. It is forwarded unchanged and counted."""

    call: FunctionCall


class ShortCircuit(NamedTuple):
    """A request that the bridge answers itself, without the upstream."""

    text: str


class Guard:
    """A guard holds only settings, so one object serves all requests."""

    name: ClassVar[str]
    argv_only: ClassVar[bool] = False  #: it checks only shells that take a list of words

    def __init__(self, settings: GuardSettings) -> None:
        self.settings = settings

    def on_request(self, request: GenerateRequest) -> GenerateRequest | ShortCircuit:
        return request

    def on_call(self, call: FunctionCall) -> FunctionCall | Blocked | NeedsApproval | NotUnderstood:
        return call
