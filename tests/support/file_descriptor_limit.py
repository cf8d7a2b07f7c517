"""A limit that lets a process open no further file descriptors."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_free_file_descriptors(process: int = 0) -> Iterator[None]:
    """Set the limit of this process or another to three descriptors, which are already open."""
    allowed = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (3, allowed[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_NOFILE, allowed)
