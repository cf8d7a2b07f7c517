"""The settings of the guards, from `config/guards.toml`: the mode of each guard and the tools it checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from bridge.settings.patterns import checked_pattern
from bridge.settings.source import label, read_toml
from bridge.settings.value import OneOf, Range, SettingsError, read_table, shape_of, shapes, suggestion

Mode = Annotated[str, OneOf(("off", "shadow", "enforce"))]
Decision = Annotated[str, OneOf(("allow", "deny", "ask"))]


@dataclass(frozen=True, slots=True)
class GuardModes:
    """A guard in `shadow` mode only counts and logs what it would have done."""

    tool_policy: Mode = "enforce"
    shell_arguments: Mode = "enforce"
    apply_patch: Mode = "enforce"
    shell_gate: Mode = "enforce"
    loop: Mode = "enforce"
    large_output: Mode = "enforce"
    secrets: Mode = "off"


@dataclass(frozen=True, slots=True)
class ShellTool:
    tools: tuple[str, ...]
    argument: str
    form: Annotated[
        str, OneOf(("argv", "script"))
    ]  #: argv: a list of words; script: a text that a shell runs


@dataclass(frozen=True, slots=True)
class PatchTool:
    tools: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShellGateSettings:
    strict: bool = True  #: block a shell operator inside a word too
    wrappers: tuple[str, ...] = ("bash -lc", "apply_patch")


@dataclass(frozen=True, slots=True)
class LoopSettings:
    failures: Annotated[int, Range(2)] = 2
    successes: Annotated[int, Range(2)] = 3
    window: Annotated[int, Range(2)] = 10
    alike: Annotated[float, Range(0.1, 1)] = 0.8
    polling: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LargeOutputSettings:
    most_characters: Annotated[int, Range(1000)] = 50_000


@dataclass(frozen=True, slots=True)
class ToolPolicySettings:
    default: Decision = "allow"
    non_interactive: bool = False  #: no user can approve calls, so `ask` means `deny`


@dataclass(frozen=True, slots=True)
class PolicyRule:
    tool: str
    decision: Decision
    args_pattern: str = ""
    priority: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GuardSettings:
    modes: GuardModes = GuardModes()
    shell_gate: ShellGateSettings = ShellGateSettings()
    loop: LoopSettings = LoopSettings()
    large_output: LargeOutputSettings = LargeOutputSettings()
    tool_policy: ToolPolicySettings = ToolPolicySettings()
    shells: tuple[ShellTool, ...] = ()
    patches: tuple[PatchTool, ...] = ()
    rules: tuple[PolicyRule, ...] = field(default=())

    def shell(self, tool: str) -> ShellTool | None:
        return next((shell for shell in self.shells if tool in shell.tools), None)

    def patch(self, tool: str) -> PatchTool | None:
        return next((patch for patch in self.patches if tool in patch.tools), None)


_SECTIONS: Mapping[str, type] = {
    "modes": GuardModes,
    "shell_gate": ShellGateSettings,
    "loop": LoopSettings,
    "large_output": LargeOutputSettings,
    "tool_policy": ToolPolicySettings,
}
_LISTS: Mapping[str, tuple[str, type]] = {
    "shell": ("shells", ShellTool),
    "patch": ("patches", PatchTool),
    "rule": ("rules", PolicyRule),
}


def load_guards(path: Path) -> GuardSettings:
    where, written = label(path), read_toml(path)
    for name in written:
        if name not in _SECTIONS and name not in _LISTS:
            raise SettingsError(f"{where}: {name} is unknown; {suggestion(name, [*_SECTIONS, *_LISTS])}")
    values: dict[str, Any] = {
        name: _built(f"{where}: [{name}]", owner, written.get(name, {})) for name, owner in _SECTIONS.items()
    }
    for name, (field_name, owner) in _LISTS.items():
        rows = shape_of(list[dict[str, Any]]).read(f"{where}: {name}", written.get(name, []))
        values[field_name] = tuple(
            _built(f"{where}: [[{name}]] {number}", owner, row) for number, row in enumerate(rows, start=1)
        )
    return GuardSettings(**values)


def _built(where: str, owner: type, table: Any) -> Any:
    if not isinstance(table, dict):
        raise SettingsError(f"{where} must be a table")
    values = read_table(where, shapes(owner), table)
    if values.get("args_pattern"):
        values["args_pattern"] = table["args_pattern"]  # read_table strips spaces, which matter in a pattern
        checked_pattern(values["args_pattern"], f"{where}: args_pattern")
    missing = [each.name for each in fields(owner) if each.default is MISSING and each.name not in values]
    if missing:
        raise SettingsError(f"{where}: {', '.join(missing)} is missing")
    return owner(**values)
