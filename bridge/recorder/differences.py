"""The differences of two JSON values, each with its path."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

#: Stands for a value that one of the two does not have.
ABSENT = "(absent)"


class Difference(NamedTuple):
    path: str
    before: Any
    now: Any


def differences(before: Any, now: Any, path: str = "") -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in {**before, **now}:
            inner = f"{path}.{name}" if path else name
            yield from differences(before.get(name, ABSENT), now.get(name, ABSENT), inner)
    elif isinstance(before, list) and isinstance(now, list):
        for number, (one, other) in enumerate(zip_longest(before, now, fillvalue=ABSENT)):
            yield from differences(one, other, f"{path}[{number}]")
    elif before != now:
        yield Difference(path, before, now)
