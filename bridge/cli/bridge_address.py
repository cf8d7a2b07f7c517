"""The address of the bridge that a command speaks to."""

from __future__ import annotations

from bridge.settings import SettingsError, load
from bridge.settings.value import WebAddress


def bridge_address(url: str | None) -> str:
    """The address that was given, or that of the bridge on this machine."""
    return checked_address(url) if url else load().server.address


def checked_address(url: str) -> str:
    rule = WebAddress()
    if not rule.accepts(url):
        raise SettingsError(f"--url must be{rule.description.removeprefix(':')}")
    if url.rstrip("/").endswith(("/v1", "/v1beta")):
        raise SettingsError(
            "--url must not end with /v1 or /v1beta; the bridge's clients add it where needed"
        )
    return url.rstrip("/")
