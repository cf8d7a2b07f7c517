"""The delivered systemd unit as directives; configparser would lose repeated ones."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

UNIT = Path(__file__).parent.parent.parent / "deploy" / "gemini-bridge.service"


def directives() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for line in UNIT.read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found[name].append(value)
    return found
