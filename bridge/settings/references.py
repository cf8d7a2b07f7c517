"""Secrets that a configuration file names but does not contain: `env:NAME` and `credential:name`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bridge.settings.source import CREDENTIALS_DIR, read_credential
from bridge.settings.value import SettingsError

ENVIRONMENT = "env:"
CREDENTIAL = "credential:"


def from_environment(where: str, name: str, environ: Mapping[str, str]) -> str:
    """The secret in this variable."""
    if text := environ.get(name, "").strip():
        return text
    raise SettingsError(f"{where}: the environment variable {name} is not set; set it to the key")


def from_credential(where: str, name: str, environ: Mapping[str, str]) -> str:
    """The secret that systemd passes under this name; the lines of several are joined by commas."""
    folder = environ.get(CREDENTIALS_DIR)
    if not folder:
        raise SettingsError(
            f"{where}: {CREDENTIALS_DIR} is not set: only systemd passes credentials; "
            f'use "{ENVIRONMENT}NAME" if the bridge runs without systemd'
        )
    plain = Path(name).name == name
    if text := read_credential(Path(folder) / name, f"{where}: credential {name}") if plain else "":
        return ",".join(text.splitlines())
    raise SettingsError(
        f"{where}: systemd passed no credential named {name}; add LoadCredential={name}:PATH to the unit"
    )
