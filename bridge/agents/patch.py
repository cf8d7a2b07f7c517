"""Applies a patch to one text. A hunk is found by its lines, since models count lines wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

HEADERS = ("--- ", "+++ ", "diff ", "index ")
NO_NEWLINE = "\\ No newline"


class PatchFailed(Exception):
    """The patch does not fit. The message is for the model."""


class Hunk(NamedTuple):
    old: tuple[str, ...]
    new: tuple[str, ...]


def hunks_of(patch: str) -> list[Hunk]:
    """The hunks of a unified diff of one file. The numbers behind `@@` are ignored."""
    hunks: list[tuple[list[str], list[str]]] = []
    for line in patch.splitlines():
        if line.startswith("@@"):
            hunks.append(([], []))
        elif not hunks:
            if line.strip() and not line.startswith(HEADERS):
                raise PatchFailed("The patch must be a unified diff: hunks that begin with a line @@")
        elif not line.startswith(NO_NEWLINE):
            _add(line, *hunks[-1])
    found = [Hunk(tuple(old), tuple(new)) for old, new in hunks]
    if not found or any(hunk.old == hunk.new for hunk in found):
        raise PatchFailed("The patch changes nothing, or one of its hunks does not")
    return found


def _add(line: str, old: list[str], new: list[str]) -> None:
    mark, text = line[:1] or " ", line[1:]
    if mark not in " -+":
        raise PatchFailed(f"Each line of a hunk begins with a space, - or +, not {mark!r}")
    if mark != "+":
        old.append(text)
    if mark != "-":
        new.append(text)


def patched(text: str, patch: str) -> str:
    """The text with all hunks applied, in their order. Raises PatchFailed."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(newline)
    position = 0
    for number, hunk in enumerate(hunks_of(patch), start=1):
        position = _place(lines, hunk.old, position, number)
        lines[position : position + len(hunk.old)] = hunk.new
        position += len(hunk.new)
    return newline.join(lines)


def _place(lines: Sequence[str], old: Sequence[str], start: int, number: int) -> int:
    """Where the hunk applies: at the only place behind the hunk before it."""
    if not old:
        if start or any(lines):
            raise PatchFailed(f"Hunk {number} has no line of the file; add the lines around the change")
        return 0
    places = [
        at for at in range(start, len(lines) - len(old) + 1) if tuple(lines[at : at + len(old)]) == tuple(old)
    ]
    if len(places) != 1:
        where = "at no place" if not places else f"at {len(places)} places; add lines around the change"
        raise PatchFailed(f"The lines of hunk {number} are in the file {where}")
    return places[0]
