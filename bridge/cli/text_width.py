"""How many columns of a terminal a text takes, and lines that fit."""

from __future__ import annotations

import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator


def terminal_width() -> int | None:
    """The columns of the terminal that reads the output; None if a file or a program reads it."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def display_width(text: str) -> int:
    """East Asian wide characters and emoji take two columns, combining marks none."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most this width. It breaks after blanks, and within a word that is too long."""
    lines, line = [], ""
    for piece in _pieces(text, width):
        if line and display_width(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece
    return [*lines, line.rstrip()]


def _pieces(text: str, width: int) -> Iterator[str]:
    """The words with the blanks after them, and words that are too long in parts."""
    for word in re.findall(r"\s*\S+\s*", text):
        part = ""
        for character in word:
            if display_width(part) + _columns(character) > width and not character.isspace():
                yield part
                part = ""
            part += character
        yield part


def hanging(text: str, indent: int) -> str:
    """The text for a terminal: further lines are indented by so many columns. Elsewhere it stays one line."""
    width = terminal_width()
    if width is None or width < 2 * indent or display_width(text) <= width:
        return text
    first = wrapped(text[indent:], width - indent)
    return text[:indent] + f"\n{'':{indent}}".join(first)
