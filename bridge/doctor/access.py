"""Checks the access rules: a service that others can reach should require keys."""

from __future__ import annotations

from bridge.access.authentication import describe_access
from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.state.errors import StorageError
from bridge.state.key_store import KeysLost
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores


def check_access(installation: Installation) -> Finding:
    settings = installation.settings
    try:
        keys = open_stores(settings, PATIENT).keys.all()
    except KeysLost as error:
        return red(
            str(error),
            "restore it from a backup, or create a new key store: gemini-bridge key add NAME --new-store",
        )
    except StorageError as error:
        return red(
            f"the keys cannot be read: {error.reason}", "see the checks “state folder” and “state files”"
        )
    access = describe_access(settings).text
    if keys and not settings.access.open:
        return green(access)
    return yellow(access, "create a key before others can reach the service: gemini-bridge key add NAME")
