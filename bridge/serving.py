"""The settings that the running service goes by.

gunicorn's master reads them before it makes workers, and again when it is told to reload; the workers take
what the master has found good. So a reload with a broken configuration leaves the service as it was.
"""

from __future__ import annotations

import logging

from bridge.access.door import rule_at_start
from bridge.settings import Settings, SettingsError, load
from bridge.upstream import make_upstream

log = logging.getLogger(__name__)

_in_force: tuple[Settings, str] | None = None


def take_settings() -> tuple[Settings, str]:
    """Read and check them, and say in words who will be let in. Raises SettingsError at the start; later the
    settings in force stay."""
    global _in_force
    try:
        settings = load()
        make_upstream(settings)  # opens no connection; it says what is missing
        rule = rule_at_start(settings)
    except SettingsError as error:
        if _in_force is None:
            raise
        log.error(
            "reload refused: the settings are wrong, and those before stay", extra={"reason": str(error)}
        )
        return _in_force
    _in_force = settings, rule
    return _in_force


def settings_in_force() -> Settings:
    return (_in_force or take_settings())[0]
