"""Secrets that a configuration file names but does not contain: `env:NAME` and `credential:name`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from bridge.settings.source import CREDENTIALS_DIR, read_credential
from bridge.settings.value import SettingsError

ENVIRONMENT = "env:"
CREDENTIAL = "credential:"

#: Headers whose value is a secret, so that a file must not hold it.
SECRET_HEADERS = frozenset(("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"))
_REFERENCE = re.compile(r"(?:^|(?<= ))(env|credential):([\w.-]+)$")


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


# --- headers ------------------------------------------------------------------------------------------


def header_value(where: str, name: str, text: str, environ: Mapping[str, str]) -> str:
    """The value of a header, with the secret in the place of its reference."""
    found = _REFERENCE.search(text)
    if found is None:
        if name.lower() in SECRET_HEADERS:  # the message does not repeat the text
            raise SettingsError(
                f'{where} must not contain a secret: write "env:NAME", or "credential:name" for a systemd '
                'credential, for example "Bearer env:NAME"'
            )
        return _one_line(where, text)
    kind, reference = found.groups()
    secret = from_environment if kind == "env" else from_credential
    return _one_line(where, text[: found.start()] + secret(where, reference, environ))


def _one_line(where: str, text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        raise SettingsError(f"{where} must have only ASCII characters of one line")
    return text
