"""What another process or thread does, it does a little later: the tests wait for it in one way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def eventually(look: Callable[[], Found], seconds: float = 30.0, every: float = 0.05) -> Found:
    """What is found at last; what was found instead, when the time is over."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            break
        time.sleep(every)
    return found
