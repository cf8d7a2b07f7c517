"""The settings that the running service goes by.

gunicorn's master reads them before it makes workers, and again when it is told to reload; the workers take
what the master has found good. So a reload with a broken configuration leaves the service as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bridge.access.authentication import describe_access
from bridge.settings import Settings, SettingsError, load
from bridge.settings.database_url import secrets_in
from bridge.settings.value import SHORTEST_SECRET
from bridge.upstream import make_upstream

log = logging.getLogger(__name__)


class ActiveSettings(NamedTuple):
    settings: Settings
    access: str  #: who will be let in, in words
    home: str  #: the address that the upstream asks, if it asks one
    notices: Sequence[str]  #: what the operator must know of the secrets, the upstream and the tables


_in_force: ActiveSettings | None = None


def load_active_settings() -> ActiveSettings:
    """Read and check them. Raises SettingsError at the start; later the settings in force stay."""
    global _in_force
    try:
        settings = load()
        upstream = make_upstream(settings)  # opens no connection; it says what is missing
        access = describe_access(settings)
    except SettingsError as error:
        if _in_force is None:
            raise
        log.error(
            "reload refused: the settings are wrong, and those before stay", extra={"reason": str(error)}
        )
        return _in_force
    notices = (*_short_secrets(settings), *upstream.notices, *_price_notices(settings))
    _in_force = ActiveSettings(settings, access, upstream.home, notices)
    return _in_force


def _price_notices(settings: Settings) -> list[str]:
    if not (unpriced := settings.unpriced_models):
        return []
    named = f"models without a price in prices.toml: {', '.join(unpriced)}"
    return [f"models.toml names {named}; {settings.fate_of_unpriced}"]


def _short_secrets(settings: Settings) -> Iterator[str]:
    secrets = {
        "upstream.api_keys": settings.upstream.api_keys,
        "code_assist.client_secret": (settings.code_assist.client_secret,),
        "state.url": secrets_in(settings.state.url),
    }
    for name, values in secrets.items():
        if any(0 < len(value) < SHORTEST_SECRET for value in values):
            yield (
                f"{name}: a secret of fewer than {SHORTEST_SECRET} characters is taken for a placeholder, "
                "and masked neither in the log nor in answers"
            )


def tell_notices() -> None:
    for notice in (_in_force or load_active_settings()).notices:
        log.warning(notice)


def active_settings() -> Settings:
    return (_in_force or load_active_settings()).settings
