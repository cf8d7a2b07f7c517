"""The table of upstreams. A new upstream is a file or folder here, and a line in this table."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.settings import Settings, SettingsError
from bridge.upstream.base import Upstream
from bridge.upstream.code_assist import CodeAssistUpstream
from bridge.upstream.cooldowns import Cooldowns, LocalCooldowns
from bridge.upstream.demo import DemoUpstream
from bridge.upstream.gemini import GeminiUpstream
from bridge.upstream.sdk import SdkUpstream
from bridge.upstream.vertex import VertexUpstream

UPSTREAMS: Mapping[str, type[Upstream]] = {
    "gemini": GeminiUpstream,
    "vertex": VertexUpstream,
    "code_assist": CodeAssistUpstream,
    "sdk": SdkUpstream,
    "demo": DemoUpstream,
}


def make_upstream(settings: Settings, cooldowns: Cooldowns | None = None) -> Upstream:
    kind = UPSTREAMS.get(settings.transport_in_force)
    if kind is None:
        allowed = ", ".join(("auto", *UPSTREAMS))
        raise SettingsError(
            f"{settings.origins.get('upstream.transport')}: upstream.transport is "
            f"{settings.upstream.transport!r}; allowed are {allowed}"
        )
    return kind.from_settings(settings, cooldowns or LocalCooldowns())
