"""What a piece of work costs: by the lines it runs, which are the same each time, and by its CPU time.

Lines see every loop that is written in Python, at sizes that take milliseconds. They do not see what one line
does in C: a copy, a search, a comparison. CPU time does, at larger sizes and with more tolerance.
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
#: Work on input of a size, made before it is measured.
Case = Callable[[int], Work]

BRIDGE = str(ROOT / "bridge")


class Lines:
    """The lines of the bridge's own code that some work runs, and the functions they stand in."""

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
    """The collector looks at more the more there is, whoever made it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
