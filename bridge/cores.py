"""A core for each worker.

The threads of a worker take turns with one interpreter. Spread over several cores, they would wake another
core at every turn, and leave what they had at hand in the caches of the one before.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress


def core_beside(taken: Iterable[int | None]) -> int | None:
    """One of those that the fewest of ours have; None on a system that has no word for it. Which of them is
    left to chance, or all the services of a machine would choose the same."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    workers = Counter(taken)
    allowed = os.sched_getaffinity(0)
    fewest = min(workers[core] for core in allowed)
    return random.choice([core for core in allowed if workers[core] == fewest])


def stay_on(core: int | None) -> None:
    """This process, and the threads that it will have. Where that is forbidden, it does without."""
    if core is not None:
        with suppress(OSError):
            os.sched_setaffinity(0, {core})
