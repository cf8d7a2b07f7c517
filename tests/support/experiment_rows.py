"""Rows of experiments.toml for tests, and a folder of settings with them."""

from __future__ import annotations

import shutil
from pathlib import Path

from gunicorn_bridge import ROOT

A_MODEL, B_MODEL = "gemini-3.8-flash", "gemini-3.1-pro-preview"

#: Half of the conversations of `sonnet` get each of two models.
HALVES = f"""
[[experiment]]
name = "halves"
aliases = ["sonnet", "claude-sonnet-*"]
testers = ["tester"]

[[experiment.arm]]
name = "a"
weight = 50
model = "{A_MODEL}"

[[experiment.arm]]
name = "b"
weight = 50
model = "{B_MODEL}"
"""


def settings_folder(parent: Path, rows: str = HALVES, models: str = "", upstreams: str = "") -> Path:
    """A copy of the delivered settings. `models` are rows before those of models.toml."""
    config = parent / "config"
    config.mkdir(exist_ok=True)
    for file in (ROOT / "config").glob("*.toml"):
        if file.name != "local.toml":
            shutil.copy(file, config)
    (config / "experiments.toml").write_text(rows)
    (config / "upstreams.toml").write_text(upstreams)
    if models:
        path = config / "models.toml"
        path.write_text(path.read_text().replace("[[alias]]", f"{models}\n[[alias]]", 1))
    return config
