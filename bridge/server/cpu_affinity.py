"""Pins each worker to one CPU core.

The threads of a worker share one interpreter lock. Spread over several cores, each change of thread would
wake another core and lose the data in the caches of the previous core.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress


def choose_core(taken: Sequence[int | None], staying: int) -> int | None:
    """The core that the fewest of our workers use; None if the system does not support pinning.

    `taken` lists the cores of the workers, the oldest worker first. During a reload only the last `staying`
    workers stay; the others only break ties. Remaining ties are broken at random, so that several services on
    one machine do not all choose the same core.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    all_of_them, later = Counter(taken), Counter(taken[max(0, len(taken) - staying) :])
    allowed = os.sched_getaffinity(0)
    return min(allowed, key=lambda core: (later[core], all_of_them[core], random.random()))


def pin_to_core(core: int | None) -> None:
    """Pin this process and its future threads to the core, if the system allows it."""
    if core is not None:
        with suppress(OSError):
            os.sched_setaffinity(0, {core})
