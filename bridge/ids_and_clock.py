"""Ids and time as injected functions, so that tests can replace them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass


def random_id(prefix: str) -> str:
    """A new id, unique across all workers and restarts: clients merge turns that share an id."""
    return prefix + os.urandom(12).hex()


@dataclass(frozen=True, slots=True)
class IdsAndClock:
    new_id: Callable[[str], str] = random_id
    now: Callable[[], float] = time.time
