"""A thread that calls an object's method at a fixed interval, as long as the object exists."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def call_periodically(target: T, call: Callable[[T], None], seconds: float) -> threading.Thread:
    """`call` must not raise, and must not keep a reference to the target."""
    thread = threading.Thread(target=_run, args=(weakref.ref(target), call, seconds), daemon=True)
    thread.start()
    return thread


def _run(target: weakref.ref[T], call: Callable[[T], None], seconds: float) -> None:
    while True:
        time.sleep(seconds)
        found = target()
        if found is None:
            return
        call(found)
        del found
