"""Reads a file with the body of a client's request."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bridge.settings import SettingsError

STANDARD_INPUT = "-"


def read_body(name: str) -> dict[str, Any]:
    try:
        data = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
        body = json.loads(data)
    except OSError as error:
        raise SettingsError(f"{name} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"{name} is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise SettingsError(f"{name} must hold a JSON object")
    return body
