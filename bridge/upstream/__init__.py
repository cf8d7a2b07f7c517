"""The upstreams the bridge can call. A new one is a file or folder beside these and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridge.cooldowns import Cooldowns, LocalCooldowns
from bridge.settings import Settings, SettingsError
from bridge.upstream.base import Upstream
from bridge.upstream.demo import DemoUpstream
from bridge.upstream.gemini import GeminiUpstream

UPSTREAMS: Mapping[str, Callable[[Settings, Cooldowns], Upstream]] = {
    "gemini": GeminiUpstream.from_settings,
    "demo": DemoUpstream.from_settings,
}


def make_upstream(settings: Settings, cooldowns: Cooldowns | None = None) -> Upstream:
    make = UPSTREAMS.get(settings.transport_in_force)
    if make is None:
        allowed = ", ".join(("auto", *UPSTREAMS))
        raise SettingsError(
            f"{settings.origins.get('upstream.transport')}: upstream.transport is "
            f"{settings.upstream.transport!r}; allowed are {allowed}"
        )
    return make(settings, cooldowns or LocalCooldowns())
