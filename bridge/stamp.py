"""Ids and time, handed to whoever needs them, so that tests can hand in their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4


def random_id(prefix: str) -> str:
    """Unique over all workers and restarts: clients merge turns whose ids repeat."""
    return prefix + uuid4().hex[:24]


@dataclass(frozen=True, slots=True)
class Stamp:
    new_id: Callable[[str], str] = random_id
    now: Callable[[], float] = time.time
