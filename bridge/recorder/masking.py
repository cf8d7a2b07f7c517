"""The level `masked`: texts without secrets, addresses of e-mail and numbers of telephones, and no media."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from bridge.guards.secrets import SECRETS

MAX_DEPTH = 200
SHORTEST_MEDIA = 64
MARK = "[masked]"
TOO_DEEP = "[too deep]"

#: Fields that contain media as base64.
_MEDIA = frozenset({"data", "b64_json", "file_data", "fileData", "bytes"})
#: Fields in which a stream carries a text piece by piece.
_PIECES = frozenset(
    {
        "arguments",
        "content",
        "delta",
        "partial_json",
        "reasoning",
        "reasoning_content",
        "refusal",
        "text",
        "thinking",
    }
)
_PRIVATE = re.compile(
    rf"(?:{SECRETS.pattern})"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # a JSON Web Token
    r"|(?i:\b(?:bearer|basic)\s+)[\w.~+/=-]{16,}"
    r"|(?i:\b(?:api[_-]?key|password|passwd|secret|token)\b[\"']?\s{0,4}[:=]\s{0,4}[\"']?)[^\s\"',;]{6,}"
    r"|(?<=://)[^\s/@:]{1,100}:[^\s/@]{1,100}(?=@)"  # user and password in an address
    r"|(?<![\w.%+-])[\w.%+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"  # e-mail
    r"|(?<![\w.-])(?!\d{4}-\d\d-\d\d)(?:\+|\(|\b)\d(?:[ ()/.-]{0,2}\d){7,15}(?![\w-])"  # telephone
)


def masked_text(text: str) -> str:
    return _PRIVATE.sub(MARK, text)


def masked(value: Any, field: str = "", depth: int = 0) -> Any:
    match value:
        case str() if _is_media(value, field):
            return f"[media of {len(value)} characters]"
        case str():
            return masked_text(value)
        case Mapping() | list() | tuple() if depth >= MAX_DEPTH:
            return TOO_DEEP
        case Mapping():
            return {masked_text(name): masked(each, name, depth + 1) for name, each in value.items()}
        case list() | tuple():
            return [masked(each, field, depth + 1) for each in value]
    return value


def _is_media(text: str, field: str) -> bool:
    return text.startswith("data:") or (field in _MEDIA and len(text) >= SHORTEST_MEDIA)


# --- streams -----------------------------------------------------------------------------------------


class _Piece:
    """A text in a value of a stream: its holder and its place there."""

    def __init__(self, holder: Any, place: Any) -> None:
        self._holder = holder
        self._place = place

    @property
    def text(self) -> str:
        return str(self._holder[self._place])

    @text.setter
    def text(self, text: str) -> None:
        self._holder[self._place] = text


def mask_pieces(values: list[Any]) -> list[Any]:
    """Mask what a stream has cut into pieces: the pieces of a field are joined to find it. The values must be
    copies, since they change."""
    fields: defaultdict[tuple[Any, ...], list[_Piece]] = defaultdict(list)
    for value in values:
        for path, piece in _pieces(value, ()):
            fields[path].append(piece)
    for pieces in fields.values():
        _mask_joined(pieces)
    return values


def _pieces(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], _Piece]]:
    if not isinstance(value, (dict, list)):
        return
    for place, each in value.items() if isinstance(value, dict) else enumerate(value):
        # Places in lists differ between pieces of one text; a thought and its answer are two texts.
        here = (*path, place, value.get("thought")) if isinstance(value, dict) else path
        if isinstance(each, str) and place in _PIECES:
            yield here, _Piece(value, place)
        yield from _pieces(each, here)


def _mask_joined(pieces: list[_Piece]) -> None:
    joined = "".join(piece.text for piece in pieces)
    spans = [found.span() for found in _PRIVATE.finditer(joined)]
    position = 0
    for piece in pieces if spans else ():
        end = position + len(piece.text)
        piece.text = "".join(_outside(joined, position, end, spans))
        position = end


def _outside(joined: str, start: int, end: int, spans: list[tuple[int, int]]) -> Iterator[str]:
    """The text from `start` to `end` without the spans; a mark stands where a span begins."""
    for first, last in spans:
        if first >= end or last <= start:
            continue
        yield joined[start : max(first, start)]
        if first >= start:
            yield MARK
        start = min(last, end)
    yield joined[start:end]
