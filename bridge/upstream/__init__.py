"""The table of upstreams. A new upstream is a file or folder here, and a line in this table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from bridge.settings import Settings, SettingsError
from bridge.upstream.base import Upstream
from bridge.upstream.cooldowns import Cooldowns, LocalCooldowns


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
        "demo": "DemoUpstream",
    }
)


def make_upstream(settings: Settings, cooldowns: Cooldowns | None = None) -> Upstream:
    kind = UPSTREAMS.get(settings.transport_in_force)
    if kind is None:
        allowed = ", ".join(("auto", *UPSTREAMS))
        raise SettingsError(
            f"{settings.origins.get('upstream.transport')}: upstream.transport is "
            f"{settings.upstream.transport!r}; allowed are {allowed}"
        )
    return kind.from_settings(settings, cooldowns or LocalCooldowns())
