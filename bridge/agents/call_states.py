"""The states of a call of a tool, and which may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class CallState(Enum):
    VALIDATING = "validating"  #: the tool is looked up, the arguments are checked, the policy is asked
    AWAITING_APPROVAL = "awaiting_approval"  #: a person decides
    SCHEDULED = "scheduled"  #: cleared; it waits for its turn
    EXECUTING = "executing"
    SUCCESS = "success"
    ERROR = "error"  #: refused, failed or too slow
    CANCELLED = "cancelled"  #: the run ended, or a person refused the call


LEGAL: Mapping[CallState, frozenset[CallState]] = {
    CallState.VALIDATING: frozenset(
        (CallState.AWAITING_APPROVAL, CallState.SCHEDULED, CallState.ERROR, CallState.CANCELLED)
    ),
    CallState.AWAITING_APPROVAL: frozenset((CallState.SCHEDULED, CallState.ERROR, CallState.CANCELLED)),
    CallState.SCHEDULED: frozenset((CallState.EXECUTING, CallState.ERROR, CallState.CANCELLED)),
    CallState.EXECUTING: frozenset((CallState.SUCCESS, CallState.ERROR, CallState.CANCELLED)),
    CallState.SUCCESS: frozenset(),
    CallState.ERROR: frozenset(),
    CallState.CANCELLED: frozenset(),
}

START = CallState.VALIDATING


def is_final(state: CallState) -> bool:
    return not LEGAL[state]
