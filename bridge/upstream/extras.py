"""What only some upstreams need: optional packages and files with credentials."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.settings import Settings, SettingsError, UpstreamRow
from bridge.settings.upstreams import DEFAULT


@contextmanager
def needing(extra: str, row: UpstreamRow) -> Iterator[None]:
    """Wraps an import that needs an extra; a missing package becomes a SettingsError."""
    try:
        yield
    except ModuleNotFoundError:
        raise SettingsError(
            f"{row.place}, but its packages are not installed: "
            f"{sys.executable} -m pip install 'gemini-bridge[{extra}]'"
        ) from None


def credentials_origin(row: UpstreamRow, settings: Settings) -> str:
    """The source of the row's `credentials`, for messages."""
    if row.name != DEFAULT:
        return f"{row.place}: credentials"
    key = f"{row.kind}.credentials"
    return settings.origins.get(key, key)
