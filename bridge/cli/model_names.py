"""Finds misspelt names of Gemini models on the command line."""

from __future__ import annotations

import re

from bridge.settings import load
from bridge.settings.models import ModelTable
from bridge.settings.value import near_name


def misspelt_model(name: str) -> str:
    """A hint, if the name resembles that of a known model; else empty. It is no error, since the upstream may
    know models that the table does not name."""
    table = load().models
    known = _known(table)
    if not name.startswith("gemini") or name in known or table.lifecycle.row_of(name):
        return ""
    near = near_name(name, known)
    if near is None or _digits(near) != _digits(name):  # another version is another model
        return ""
    return f"the model {name} is not in config/models.toml; did you mean {near}?"


def _known(table: ModelTable) -> set[str]:
    retired = (name for row in table.lifecycle.rows for name in (*row.match, *row.replacement))
    return {target.model for target in table.known_targets} | {name for name in retired if "*" not in name}


def _digits(name: str) -> list[str]:
    return re.findall(r"\d", name)
