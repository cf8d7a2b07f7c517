"""What a user of Codex fetches once: the file that the settings name."""

from __future__ import annotations

from pathlib import Path

import requests

from bridge.connect import codex_catalog


def write_codex_catalog(address: str, home: Path) -> None:
    answer = requests.get(f"{address}{codex_catalog.PATH}", timeout=30)
    answer.raise_for_status()
    (home / ".codex" / codex_catalog.FILE).write_bytes(answer.content)
