"""The names of the steps of `bridge/context/` that a client can ask for, and what a step did."""

from __future__ import annotations

from typing import NamedTuple

CLEAR_THINKING = "clear_thinking"
CLEAR_TOOL_USES = "clear_tool_uses"
LEADING_TURNS = "leading_turns"


class StepTaken(NamedTuple):
    """What one step did with a request."""

    name: str
    changes: int  #: turns, parts or results that were changed or removed
    saved: int  #: tokens, estimated
    first: int  #: the number of turns at the beginning that the step left alone
