"""Packages that only some upstreams need, and that are installed only where one of these is wanted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.settings import Settings, SettingsError


@contextmanager
def needing(extra: str, settings: Settings) -> Iterator[None]:
    """Around the import of what stands on an extra's packages."""
    try:
        yield
    except ModuleNotFoundError:
        raise SettingsError(
            f"upstream.transport is {settings.transport_in_force}, but what it needs is not installed: "
            f"{sys.executable} -m pip install 'gemini-bridge[{extra}]'"
        ) from None
