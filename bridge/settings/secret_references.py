"""Secrets that a file names and does not hold: `env:NAME` is an environment variable, `credential:name` a
credential that systemd passes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bridge.settings.source import CREDENTIALS_DIR, read_credential
from bridge.settings.value import SettingsError

ENVIRONMENT = "env:"
CREDENTIAL = "credential:"


def referenced_secret(where: str, reference: str, environ: Mapping[str, str], what: str = "key") -> str:
    """The text of the variable or the credential; several lines of a credential are joined by commas."""
    if reference.startswith(ENVIRONMENT):
        return _from_environment(where, reference.removeprefix(ENVIRONMENT), environ, what)
    if reference.startswith(CREDENTIAL):
        return _from_credential(where, reference.removeprefix(CREDENTIAL), environ)
    # The message does not repeat the text, which may be the secret.
    raise SettingsError(
        f"{where} must not contain a {what}: write the {what} into an environment variable and "
        'name it here, "env:NAME", or give systemd a credential: "credential:name"'
    )


def _from_environment(where: str, name: str, environ: Mapping[str, str], what: str) -> str:
    if text := environ.get(name, "").strip():
        return text
    raise SettingsError(f"{where}: the environment variable {name} is not set; set it to the {what}")


def _from_credential(where: str, name: str, environ: Mapping[str, str]) -> str:
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
