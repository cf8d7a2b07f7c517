"""The table of upstreams. A new upstream is a file or folder here, and a line in this table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from bridge.settings import Settings, SettingsError, UpstreamRow
from bridge.settings.upstreams import DEFAULT
from bridge.settings.value import suggestion
from bridge.upstream.base import Upstream
from bridge.upstream.cooldowns import Cooldowns, LocalCooldowns
from bridge.upstream.directory import UpstreamDirectory


class _Upstreams(Mapping[str, type[Upstream]]):
    """Imports an upstream when it is used: the others would take memory in each process."""

    def __init__(self, classes: Mapping[str, str]) -> None:
        self._classes = classes

    def __getitem__(self, name: str) -> type[Upstream]:
        class_name = self._classes[name]
        found: type[Upstream] = getattr(import_module(f"bridge.upstream.{name}"), class_name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


#: The names are those of the files and folders.
UPSTREAMS = _Upstreams(
    {
        "gemini": "GeminiUpstream",
        "vertex": "VertexUpstream",
        "code_assist": "CodeAssistUpstream",
        "sdk": "SdkUpstream",
        "openai": "OpenAiUpstream",
        "ollama": "OllamaUpstream",
        "demo": "DemoUpstream",
    }
)


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
