"""LiteLLM's settings that the bridge has too, for local.toml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridge.migration.yaml_file import YamlPath

MOST_ATTEMPTS = 10
DAYS = ("1d", "24h")


class Counterpart(NamedTuple):
    section: str
    name: str
    read: Callable[[Any], Any]  #: returns None for a value that the bridge does not take


def _seconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 1 <= value <= 86400 else None


def _attempts(retries: Any) -> int | None:
    return min(retries + 1, MOST_ATTEMPTS) if type(retries) is int and retries >= 0 else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _json_format(value: Any) -> str | None:
    return "json" if value is True else None


COUNTERPARTS: Mapping[tuple[str, str], Counterpart] = {
    ("router_settings", "timeout"): Counterpart("upstream", "answer_timeout", _seconds),
    ("litellm_settings", "request_timeout"): Counterpart("upstream", "answer_timeout", _seconds),
    ("router_settings", "num_retries"): Counterpart("upstream", "attempts", _attempts),
    ("litellm_settings", "num_retries"): Counterpart("upstream", "attempts", _attempts),
    ("router_settings", "cooldown_time"): Counterpart("upstream", "key_cooldown", _seconds),
    ("general_settings", "global_max_parallel_requests"): Counterpart("limits", "streams", _count),
    ("litellm_settings", "json_logs"): Counterpart("log", "format", _json_format),
}


@dataclass(slots=True)
class LocalSettings:
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    carried: set[YamlPath] = field(default_factory=set)

    def add(self, path: YamlPath, section: str, name: str, value: Any) -> None:
        self.sections.setdefault(section, {})[name] = value
        self.carried.add(path)


def local_settings(values: Mapping[str, Any]) -> LocalSettings:
    """Of two settings with the same counterpart, the later one in the table decides."""
    found = LocalSettings()
    for path, counterpart in COUNTERPARTS.items():
        section = values.get(path[0])
        written = section.get(path[1]) if isinstance(section, dict) else None
        value = None if written is None else counterpart.read(written)
        if value is not None:
            found.add(path, counterpart.section, counterpart.name, value)
    _budget(values.get("litellm_settings"), found)
    return found


def _budget(settings: Any, found: LocalSettings) -> None:
    """A budget of all clients together; the bridge knows budgets of a day."""
    if not isinstance(settings, dict) or settings.get("budget_duration") not in DAYS:
        return
    budget = settings.get("max_budget")
    if isinstance(budget, int | float) and budget > 0:
        found.add(("litellm_settings", "max_budget"), "limits", "cost_per_day", float(budget))
        found.carried.add(("litellm_settings", "budget_duration"))
