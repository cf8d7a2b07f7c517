"""The Codex model catalogue that the settings name; a user of Codex downloads it once."""

from __future__ import annotations

from pathlib import Path

import requests

from bridge.connect import codex_catalog


def write_codex_catalog(address: str, home: Path) -> None:
    answer = requests.get(f"{address}{codex_catalog.PATH}", timeout=30)
    answer.raise_for_status()
    (home / ".codex" / codex_catalog.FILE).write_bytes(answer.content)
