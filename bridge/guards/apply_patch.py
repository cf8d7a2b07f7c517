"""Removes a `+` before the delimiters of a patch. Models add it because every added line has one.

Body lines must not change, and an added line may look like a delimiter. So the position of a line decides:

* the first line of the patch is `*** Begin Patch`, and the last is `*** End Patch`;
* a line is a file header where a header must follow: at the beginning, or after a deleted file. If the
first header has a `+`, the model marks all headers that way, and every such line is a header; * `*** Move
to:` directly follows `*** Update File:`; * `*** End of File` is part of an update, directly before the next
hunk, header or end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bridge.gemini.types import FunctionCall
from bridge.guards.base import Guard

BEGIN, END = "*** Begin Patch", "*** End Patch"
_HEADER = re.compile(r"\+?\*\*\* (Add|Update|Delete) File: ")
#: How a non-empty line within a patch begins.
_BODY_PREFIXES = ("+", "-", " ", "@@", "*** ")


class ApplyPatch(Guard):
    name = "apply_patch"

    def on_call(self, call: FunctionCall) -> FunctionCall:
        names = self._patch_arguments(call.name)
        if not names or not call.args:
            return call
        repaired = {key: _repair_value(value) if key in names else value for key, value in call.args.items()}
        return call if repaired == call.args else replace(call, args=repaired)

    def _patch_arguments(self, tool: str) -> tuple[str, ...]:
        if (patch := self.settings.patch(tool)) is not None:
            return patch.arguments
        shell = self.settings.shell(tool)  # a shell may receive a patch as a here-document
        return () if shell is None else (shell.argument,)


def _repair_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_repair_value(item) for item in value]
    return repair_patches(value) if isinstance(value, str) and "+*** " in value else value


def repair_patches(text: str) -> str:
    """The text with its patches repaired. The text around them stays unchanged."""
    lines = text.split("\n")
    for first, last in list(_find_patches(lines)):
        lines[first : last + 1] = _repair_lines(lines[first : last + 1])
    return "\n".join(lines)


def _find_patches(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The first and the last line of each patch. A marked end is a body line if the patch continues after
    it."""
    first = last = next_first = None
    for number, line in enumerate(lines):
        bare = line.rstrip()
        outside = bare == BEGIN or (bare != "" and not line.startswith(_BODY_PREFIXES))
        if first is not None and last is not None and outside:
            yield first, last
            first, last, next_first = next_first, None, None
        if bare == BEGIN or (bare == "+" + BEGIN and first is None):
            first = number
        elif bare == "+" + BEGIN and next_first is None and last is not None:
            next_first = number
        elif bare == END and first is not None:
            yield first, number
            first = last = next_first = None
        elif bare == "+" + END and first is not None:
            last, next_first = number, None
    if first is not None and last is not None:
        yield first, last


def _repair_lines(lines: list[str]) -> list[str]:
    patch = _Patch(lines)
    return [patch.line(number) for number in range(len(lines))]


class _Patch:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        headers = [line for line in lines if _HEADER.match(line)]
        self._marks_headers = bool(headers) and headers[0].startswith("+")
        self._section: str | None = None  # Add, Update or Delete
        self._header = -1  # the number of its line

    def line(self, number: int) -> str:
        line = self._lines[number]
        header = _HEADER.match(line)
        if header and (not line.startswith("+") or self._may_be_header(number, header[1])):
            self._section, self._header = header[1], number
            return line.removeprefix("+")
        if line.startswith("+*** ") and self._is_delimiter(line.rstrip(), number):
            return line[1:]
        return line

    def _may_be_header(self, number: int, section: str) -> bool:
        if self._marks_headers or self._section in (None, "Delete"):
            return True
        return self._section == "Add" and section == "Update" and self._lines[number + 1].startswith("@@")

    def _is_delimiter(self, line: str, number: int) -> bool:
        if line == "+" + BEGIN:
            return number == 0
        if line == "+" + END:
            return number == len(self._lines) - 1
        if line.startswith("+*** Move to: "):
            return self._section == "Update" and self._header == number - 1
        return line == "+*** End of File" and self._section == "Update" and self._ends_hunk(number)

    def _ends_hunk(self, number: int) -> bool:
        following = self._lines[number + 1]
        if number + 1 == len(self._lines) - 1 or following.startswith("@@"):
            return True
        return bool(_HEADER.match(following)) and (self._marks_headers or not following.startswith("+"))
