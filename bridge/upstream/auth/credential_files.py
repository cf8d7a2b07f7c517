"""Reads the credential files of Google's tools; errors name the problem and never quote the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from bridge.settings import SettingsError


def read_credentials(origin: str, path: Path) -> dict[str, Any]:
    try:
        found = orjson.loads(path.expanduser().read_bytes())
    except OSError as error:
        raise SettingsError(f"{origin}: {path} cannot be read: {error.strerror}") from None
    except (orjson.JSONDecodeError, RuntimeError):  # RuntimeError: `~` without a home folder
        raise SettingsError(f"{origin}: {path} is not JSON, so it is not a Google credential file") from None
    if not isinstance(found, dict):
        raise SettingsError(f"{origin}: {path} is not a Google credential file: it must be a JSON object")
    return found
