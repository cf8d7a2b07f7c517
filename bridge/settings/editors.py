"""The blocks in which editors tell the model their state: the rows of `config/editors.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from bridge.settings.source import label, read_toml
from bridge.settings.value import MatchesPattern, OneOf, SettingsError, Shape, read_table, shape_of, shapes

FILE = "editors.toml"
WHOLE, SECTIONS, JSON = "whole", "sections", "json"
REQUIRED = ("name", "open", "close", "form")

TagName = Annotated[str, MatchesPattern(r"[A-Za-z_][A-Za-z0-9_-]*", " that can name a tag")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorBlock:
    name: str
    open: str
    close: str
    form: Annotated[str, OneOf((WHOLE, SECTIONS, JSON))]
    close_stays: bool = False
    heading: str = ""
    volatile: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()
    update: TagName = ""


TABLE: Mapping[str, Shape] = {"block": shape_of(list[dict[str, Any]])}
ROW: Mapping[str, Shape] = shapes(EditorBlock)


def load_editors(path: Path) -> tuple[EditorBlock, ...]:
    where = label(path)
    blocks: dict[str, EditorBlock] = {}
    for number, written in enumerate(read_table(where, TABLE, read_toml(path)).get("block", ()), start=1):
        block = _block(f"{where}: [[block]] {number}", written)
        if block.name in blocks:
            raise SettingsError(f"{where}: [[block]] {number}: name: there are two blocks named {block.name}")
        blocks[block.name] = block
    return tuple(blocks.values())


def _block(where: str, written: Mapping[str, object]) -> EditorBlock:
    values = read_table(where, ROW, written)
    if missing := [name for name in REQUIRED if name not in values]:
        raise SettingsError(f"{where}: {', '.join(missing)} is missing")
    # `read_table` strips spaces at the end, and a heading such as "# " needs its own
    if "heading" in written:
        values["heading"] = written["heading"]
    if values["form"] == SECTIONS and "heading" not in values:
        raise SettingsError(f"{where}: heading is missing: it tells where the sections begin")
    return EditorBlock(**values)
