"""Files in which Google's tools keep credentials: what is wrong with one is told, what is in it never."""

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
    except (orjson.JSONDecodeError, RuntimeError):  # the latter for a ~ of nobody
        raise SettingsError(f"{origin}: {path} is not JSON, and so not credentials of Google's") from None
    if not isinstance(found, dict):
        raise SettingsError(f"{origin}: {path} holds no credentials of Google's")
    return found
