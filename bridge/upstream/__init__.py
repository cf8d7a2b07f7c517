"""The table of upstreams. A new upstream is a file or folder here, and a line in this table."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.settings import Settings, SettingsError, UpstreamRow
from bridge.settings.upstreams import DEFAULT
from bridge.settings.value import suggestion
from bridge.upstream.base import Upstream
from bridge.upstream.code_assist import CodeAssistUpstream
from bridge.upstream.cooldowns import Cooldowns, LocalCooldowns
from bridge.upstream.demo import DemoUpstream
from bridge.upstream.directory import UpstreamDirectory
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


def make_directory(
    settings: Settings, cooldowns: Cooldowns | None = None, default: Upstream | None = None
) -> UpstreamDirectory:
    """`default` replaces the upstream of the section [upstream]."""
    shared = cooldowns or LocalCooldowns()

    def make(row: UpstreamRow) -> Upstream:
        return default if default and row.name == DEFAULT else make_upstream(settings, shared, row)

    return UpstreamDirectory(settings.all_upstreams, make, shared)


def make_upstream(
    settings: Settings, cooldowns: Cooldowns | None = None, row: UpstreamRow | None = None
) -> Upstream:
    """The upstream of the row; without a row, the first of all upstreams."""
    row = row or settings.all_upstreams[0]
    kind = UPSTREAMS.get(row.kind)
    if kind is None:
        raise _unknown_kind(row, settings)
    return kind.from_row(row, settings, cooldowns or LocalCooldowns())


def _unknown_kind(row: UpstreamRow, settings: Settings) -> SettingsError:
    if row.name != DEFAULT:
        return SettingsError(f"{row.origin} {row.kind!r}; {suggestion(row.kind, UPSTREAMS)}")
    allowed = ", ".join(("auto", *UPSTREAMS))
    origin = settings.origins.get("upstream.transport")
    return SettingsError(f"{origin}: {row.origin} {row.kind!r}; allowed are {allowed}")
