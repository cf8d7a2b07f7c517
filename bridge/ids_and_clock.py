"""Ids and time, handed to whoever needs them, so that tests can hand in their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass


def random_id(prefix: str) -> str:
    """Unique over all workers and restarts: clients merge turns whose ids repeat."""
    return prefix + os.urandom(12).hex()


@dataclass(frozen=True, slots=True)
class IdsAndClock:
    new_id: Callable[[str], str] = random_id
    now: Callable[[], float] = time.time
