"""Why a run of an agent ended."""

from __future__ import annotations

from enum import StrEnum


class EndReason(StrEnum):
    GOAL = "GOAL"  #: it answered, or completed its task
    TIMEOUT = "TIMEOUT"
    MAX_TURNS = "MAX_TURNS"
    MAX_TOKENS = "MAX_TOKENS"
    ABORTED = "ABORTED"  #: the client left, or the bridge stopped
    ERROR = "ERROR"
    ERROR_NO_COMPLETE_TASK_CALL = "ERROR_NO_COMPLETE_TASK_CALL"
