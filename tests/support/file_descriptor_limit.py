"""A process that may open nothing more."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_more_descriptors(process: int = 0) -> Iterator[None]:
    """Of this process, or of another. Three are allowed, which are open."""
    allowed = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (3, allowed[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_NOFILE, allowed)
