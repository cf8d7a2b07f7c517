"""Optional packages that only some upstreams need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.settings import Settings, SettingsError


@contextmanager
def needing(extra: str, settings: Settings) -> Iterator[None]:
    """Wraps an import that needs an extra; a missing package becomes a SettingsError."""
    try:
        yield
    except ModuleNotFoundError:
        raise SettingsError(
            f"upstream.transport is {settings.transport_in_force}, but its packages are not installed: "
            f"{sys.executable} -m pip install 'gemini-bridge[{extra}]'"
        ) from None
