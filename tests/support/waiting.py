"""Waiting for the effects of another process or thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def eventually(look: Callable[[], Found], seconds: float = 30.0, every: float = 0.05) -> Found:
    """Call `look` until its result is true or the time is over; return the last result."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            break
        time.sleep(every)
    return found
