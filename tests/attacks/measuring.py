"""Measures the cost of work by the number of executed lines, which is deterministic, and by CPU time.

Line counts show every Python loop, at sizes that take milliseconds. They do not show the C code of a single
line: a copy, a search, a comparison. CPU time shows it, at larger sizes and with more tolerance.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from gunicorn_bridge import ROOT

Work = Callable[[], object]
#: A function that makes work on input of a given size; only the work is measured.
Case = Callable[[int], Work]

BRIDGE = str(ROOT / "bridge")


class Lines:
    """Counts the executed lines of the bridge's own code, and records their functions."""

    def __init__(self) -> None:
        self.number = 0
        self.functions: set[CodeType] = set()

    def count(self, work: Work) -> int:
        before, self.number = sys.gettrace(), 0
        sys.settrace(self._call)
        try:
            work()
        finally:
            sys.settrace(before)
        return self.number

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(BRIDGE):
            return None
        self.functions.add(frame.f_code)
        return self._line

    def _line(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        self.number += event == "line"
        return self._line


def cpu_seconds(work: Work) -> float:
    with _no_collection():
        began = time.thread_time()
        work()
        return time.thread_time() - began


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable the garbage collector: its cost depends on all objects of the process."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
