"""A `+` before the delimiters of a patch, which models put there because every added line has one.

Body lines are never changed, and an added line may itself look like a delimiter. So position decides:

* the first line of the patch is its beginning and the last its end;
* a file header is one where a header is due: at the beginning, or behind a deleted file. If the first header
  had a `+`, the model marks its headers so, and every such line is one;
* `*** Move to:` stands directly behind `*** Update File:`;
* `*** End of File` stands in an update, directly before the next hunk, header or end.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from bridge.gemini.types import FunctionCall
from bridge.guards.base import Guard

BEGIN, END = "*** Begin Patch", "*** End Patch"
_HEADER = re.compile(r"\+?\*\*\* (Add|Update|Delete) File: ")
_PATCH = re.compile(
    r"^\+?\*\*\* Begin Patch[ \t]*\r?\n.*^\+?\*\*\* End Patch[ \t]*\r?$", re.MULTILINE | re.DOTALL
)


class ApplyPatch(Guard):
    name = "apply_patch"

    def on_call(self, call: FunctionCall) -> FunctionCall:
        names = self._arguments(call.name)
        if not names or not call.args:
            return call
        repaired = {key: _repaired(value) if key in names else value for key, value in call.args.items()}
        return call if repaired == call.args else replace(call, args=repaired)

    def _arguments(self, tool: str) -> tuple[str, ...]:
        if (patch := self.settings.patch(tool)) is not None:
            return patch.arguments
        shell = self.settings.shell(tool)  # a patch may come to a shell, as a here-document
        return () if shell is None else (shell.argument,)


def _repaired(value: Any) -> Any:
    if isinstance(value, list):
        return [_repaired(item) for item in value]
    return repair_patches(value) if isinstance(value, str) and "+*** " in value else value


def repair_patches(text: str) -> str:
    """The text with the patch in it repaired; what stands around the patch is left alone."""
    return _PATCH.sub(lambda found: "\n".join(_repaired_lines(found[0].split("\n"))), text)


def _repaired_lines(lines: list[str]) -> list[str]:
    patch = _Patch(lines)
    return [patch.line(number) for number in range(len(lines))]


class _Patch:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        headers = [line for line in lines if _HEADER.match(line)]
        self._marks_headers = bool(headers) and headers[0].startswith("+")
        self._section: str | None = None  # Add, Update or Delete

    def line(self, number: int) -> str:
        line = self._lines[number]
        header = _HEADER.match(line)
        if header and (not line.startswith("+") or self._header_is_due()):
            self._section = header[1]
            return line.removeprefix("+")
        if line.startswith("+*** ") and self._is_delimiter(line.rstrip(), number):
            return line[1:]
        return line

    def _header_is_due(self) -> bool:
        return self._marks_headers or self._section in (None, "Delete")

    def _is_delimiter(self, line: str, number: int) -> bool:
        if line == "+" + BEGIN:
            return number == 0
        if line == "+" + END:
            return number == len(self._lines) - 1
        if line.startswith("+*** Move to: "):
            before = _HEADER.match(self._lines[number - 1])
            return self._section == "Update" and before is not None and before[1] == "Update"
        return line == "+*** End of File" and self._section == "Update" and self._ends_hunk(number)

    def _ends_hunk(self, number: int) -> bool:
        following = self._lines[number + 1].removeprefix("+")
        return following.startswith(("@@", "*** "))
