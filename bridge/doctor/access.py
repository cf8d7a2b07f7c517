"""Checks the access rules: a service that others can reach should require keys."""

from __future__ import annotations

import sqlite3

from bridge.access.authentication import describe_access
from bridge.access.key_store import KEYS_FILE, KeysLost, KeyStore
from bridge.doctor.finding import Finding, Installation, green, red, yellow


def check_access(installation: Installation) -> Finding:
    settings = installation.settings
    try:
        keys = KeyStore(settings.state.dir / KEYS_FILE).all()
    except KeysLost as error:
        return red(
            str(error),
            "restore it from a backup, or create a new key store: gemini-bridge key add NAME --new-store",
        )
    except (sqlite3.Error, OSError) as error:
        return red(f"the keys cannot be read: {type(error).__name__}", "see the state folder and its files")
    access = describe_access(settings)
    if keys and not settings.access.open:
        return green(access)
    return yellow(access, "create a key before others can reach the service: gemini-bridge key add NAME")
