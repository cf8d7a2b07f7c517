"""The table of clients, and their settings for a given bridge, ready to paste.

`clients.toml` in this package contains all data. A snippet is produced as pieces, so that the page can colour
them; the joined texts of the pieces are the snippet.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from bridge.connect.codex_catalog import FILE as CATALOG_FILE

#: Used where no key is known. A bridge without keys accepts it like any other text.
PLACEHOLDER_KEY = "gbk_your_key"

KINDS: Mapping[str, str] = {"agent": "Agents", "editor": "Editors", "library": "Code"}

PLAIN, STRING, COMMENT, KEY, MODEL = "plain", "string", "comment", "key", "model"


@dataclass(frozen=True, slots=True)
class Target:
    """The values for a client's settings. Values that no HTTP header can carry are rejected."""

    url: str  #: without the path of the API and without a trailing slash
    key: str
    model: str
    catalog: str = CATALOG_FILE  #: the file in which Codex finds the bridge's models

    def __post_init__(self) -> None:
        for name in ("url", "key", "model"):
            value: str = getattr(self, name)
            if not value or not value.isascii() or not value.isprintable() or " " in value:
                raise ValueError(f"the {name} must be ASCII letters, digits and punctuation without spaces")


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    role: str = PLAIN


@dataclass(frozen=True, slots=True)
class Snippet:
    place: str  #: where to paste it
    language: str
    template: str

    def text(self, target: Target) -> str:
        return "".join(piece.text for piece in self.pieces(target))

    def pieces(self, target: Target) -> Iterator[Piece]:
        """Plain text, strings and comments; the key and the model are separate pieces."""
        end = 0
        for found in _TOKENS[self.language].finditer(self.template):
            if found.start() > end:
                yield Piece(self.template[end : found.start()])
            end = found.end()
            if found["hole"] is None:
                yield Piece(found[0], STRING if found["string"] else COMMENT)
            else:
                yield from _filled(found["hole"], found["quotes"] or self.language, target)
        if end < len(self.template):
            yield Piece(self.template[end:])


@dataclass(frozen=True, slots=True)
class ClientGuide:
    name: str
    title: str
    kind: str
    speaks: str
    notes: tuple[str, ...]
    snippets: tuple[Snippet, ...]

    @property
    def main(self) -> Snippet:
        return self.snippets[0]

    @property
    def has_catalog(self) -> bool:
        return "{catalog}" in self.main.template


# --- quoting -----------------------------------------------------------------------------------------

#: A JSON string of printable ASCII is also a valid string in TOML, YAML, Python and JavaScript.
QUOTES: Mapping[str, Callable[[str], str]] = {
    "sh": shlex.quote,
    **dict.fromkeys(("json", "toml", "yaml", "python", "javascript"), json.dumps),
    "text": str,
}

_HOLE = r"@(?P<quotes>json)?\((?P<hole>[^)]*)\)"
_STRING = r"""(?P<string>"[^"\n]*"|'[^'\n]*')"""
_HASH, _SLASHES, _NEVER = r"(?P<comment>\#.*)", r"(?P<comment>//.*)", r"(?P<comment>(?!))"

_TOKENS: Mapping[str, re.Pattern[str]] = {
    **{name: re.compile(f"{_HOLE}|{_STRING}|{_HASH}") for name in ("sh", "toml", "yaml", "python")},
    "javascript": re.compile(f"{_HOLE}|{_STRING}|{_SLASHES}"),
    "json": re.compile(f"{_HOLE}|{_STRING}|{_NEVER}"),
    "text": re.compile(rf"{_HOLE}|(?P<string>(?!))|{_NEVER}"),
}


def _filled(hole: str, quotes: str, target: Target) -> Iterator[Piece]:
    values = {"url": target.url, "key": target.key, "model": target.model, "catalog": target.catalog}
    quoted = QUOTES[quotes](hole.format_map(values))
    role = next((role for role in (KEY, MODEL) if f"{{{role}}}" in hole), None)
    if role is None:
        yield Piece(quoted, STRING)
        return
    before, value, after = quoted.rpartition(values[role])
    pieces = (Piece(before, STRING), Piece(value, role), Piece(after, STRING))
    yield from (piece for piece in pieces if piece.text)


# --- reading -----------------------------------------------------------------------------------------


def _read() -> tuple[ClientGuide, ...]:
    text = files(__package__).joinpath("clients.toml").read_text("utf-8")
    return tuple(_client(row) for row in tomllib.loads(text)["client"])


def _client(row: dict[str, Any]) -> ClientGuide:
    snippets = tuple(Snippet(each["place"], each["language"], each["text"]) for each in row.pop("snippet"))
    return ClientGuide(**row | {"notes": tuple(row["notes"])}, snippets=snippets)


CLIENTS: Mapping[str, ClientGuide] = {client.name: client for client in _read()}
