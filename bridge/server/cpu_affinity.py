"""A core for each worker.

The threads of a worker take turns with one interpreter. Spread over several cores, they would wake another
core at every turn, and leave what they had at hand in the caches of the one before.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress


def core_beside(taken: Sequence[int | None], staying: int) -> int | None:
    """One of those that the fewest of our workers have; None on a system that has no word for it.

    `taken` are their cores, the oldest worker's first. In a reload only the last ones are `staying`, and the
    others count only between equals. What is equal is left to chance, or all the services of a machine would
    choose the same.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    all_of_them, later = Counter(taken), Counter(taken[max(0, len(taken) - staying) :])
    allowed = os.sched_getaffinity(0)
    return min(allowed, key=lambda core: (later[core], all_of_them[core], random.random()))


def stay_on(core: int | None) -> None:
    """This process, and the threads that it will have. Where that is forbidden, it does without."""
    if core is not None:
        with suppress(OSError):
            os.sched_setaffinity(0, {core})
