"""The settings in force in the running service.

gunicorn's master reads and checks them before it starts workers, and again at every reload; the workers use
the settings that the master has checked. So a reload with an invalid configuration changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bridge.access.authentication import describe_access
from bridge.settings import Settings, SettingsError, load
from bridge.settings.database_url import secrets_in
from bridge.settings.value import SHORTEST_SECRET
from bridge.upstream import make_directory

log = logging.getLogger(__name__)


class ActiveSettings(NamedTuple):
    settings: Settings
    access: str  #: a text that says which clients are served
    needs_key: bool
    home: str  #: the addresses of the upstreams; empty for the demo model
    notices: Sequence[str]  #: warnings for the operator about secrets, upstream and tables


_in_force: ActiveSettings | None = None


def load_active_settings() -> ActiveSettings:
    """Read and check the settings. An error raises SettingsError at the start; later it is logged, and the
    settings in force stay."""
    global _in_force
    try:
        settings = load()
        upstreams = make_directory(settings).all()  # checks their settings; opens no connection
        access = describe_access(settings)
    except SettingsError as error:
        if _in_force is None:
            raise
        log.error(
            "reload rejected: the new settings are invalid, the previous settings stay in force",
            extra={"reason": str(error)},
        )
        return _in_force
    told = dict.fromkeys(notice for upstream in upstreams for notice in upstream.notices)
    notices = (*_short_secrets(settings), *told, *_price_notices(settings))
    homes = dict.fromkeys(upstream.home for upstream in upstreams if upstream.home)
    _in_force = ActiveSettings(settings, access.text, access.needs_key, ", ".join(homes), notices)
    return _in_force


def _price_notices(settings: Settings) -> list[str]:
    if not (unpriced := settings.unpriced_models):
        return []
    models = f"models without a price in prices.toml: {', '.join(unpriced)}"
    return [f"models.toml names {models}; {settings.unpriced_effect}"]


def _short_secrets(settings: Settings) -> Iterator[str]:
    secrets = {
        "upstream.api_keys": settings.upstream.api_keys,
        **{f"{row.location_in_file}: api_key": row.api_keys for row in settings.upstreams},
        "code_assist.client_secret": (settings.code_assist.client_secret,),
        "state.url": secrets_in(settings.state.url),
    }
    for name, values in secrets.items():
        if any(0 < len(value) < SHORTEST_SECRET for value in values):
            yield (
                f"{name}: a secret of fewer than {SHORTEST_SECRET} characters is treated as a placeholder; "
                "it is not masked in the log or in answers"
            )


def log_notices() -> None:
    for notice in (_in_force or load_active_settings()).notices:
        log.warning(notice)


def active_settings() -> Settings:
    return (_in_force or load_active_settings()).settings
