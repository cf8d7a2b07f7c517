"""The queries, results and citations of Google's built-in search, from an answer's `groundingMetadata`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from bridge.gemini.types import JsonObject


class WebSource(NamedTuple):
    url: str
    title: str


class WebSearch(NamedTuple):
    queries: list[str]
    pages: list[WebSource]

    @property
    def query(self) -> str:
        return ", ".join(self.queries)


class Citation(NamedTuple):
    """A web page that supports the characters `start` to `end` (exclusive) of the text."""

    start: int
    end: int
    source: WebSource


def web_search_from(grounding: JsonObject | None) -> WebSearch | None:
    """The search that the answer used, or None."""
    queries = [query for query in _list(grounding, "webSearchQueries") if isinstance(query, str)]
    found = [chunk.get("web") for chunk in _list(grounding, "groundingChunks") if isinstance(chunk, dict)]
    webs = [web for web in found if isinstance(web, dict)]
    pages = [page for page in map(_source, webs) if page is not None]
    return WebSearch(queries, pages) if queries or webs else None


def citations_in(text: str, grounding: JsonObject | None) -> list[Citation]:
    """The citations of the text, in Gemini's order. Gemini gives byte offsets in UTF-8; these are
    characters.

    `text` is the whole text of the answer. A support of a text that the answer does not contain is left out.
    """
    supports = [support for support in _list(grounding, "groundingSupports") if isinstance(support, dict)]
    if not supports or not text:
        return []
    pages = [_page(chunk) for chunk in _list(grounding, "groundingChunks")]
    byte_ends = list(accumulate(map(_utf8_length, text)))
    cited = ((_span(text, byte_ends, support.get("segment")), support) for support in supports)
    citations = [
        Citation(*span, page) for span, support in cited if span for page in _cited_pages(support, pages)
    ]
    return list(dict.fromkeys(citations))


def _source(web: JsonObject) -> WebSource | None:
    return WebSource(str(web["uri"]), str(web.get("title") or web["uri"])) if web.get("uri") else None


def _page(chunk: Any) -> WebSource | None:
    web = chunk.get("web") if isinstance(chunk, dict) else None
    return _source(web) if isinstance(web, dict) else None


def _cited_pages(support: JsonObject, pages: list[WebSource | None]) -> Iterator[WebSource]:
    for index in _list(support, "groundingChunkIndices"):
        page = pages[index] if type(index) is int and 0 <= index < len(pages) else None
        if page is not None:
            yield page


def _span(text: str, byte_ends: list[int], segment: Any) -> tuple[int, int] | None:
    """The characters of a segment. An offset inside a character covers the whole character."""
    if not isinstance(segment, dict):
        return None
    first, last = segment.get("startIndex", 0), segment.get("endIndex")
    start, end = 0, 0
    if type(first) is int and type(last) is int and 0 <= first < last:
        start = bisect_right(byte_ends, first)
        end = min(bisect_left(byte_ends, last) + 1, len(text))
    quoted = segment.get("text")
    if isinstance(quoted, str) and quoted and text[start:end] != quoted:
        return _nearest(text, quoted, start)
    return (start, end) if start < end else None


def _nearest(text: str, quoted: str, start: int) -> tuple[int, int] | None:
    """Where the text contains the quoted one. Gemini counts from the start of a part, and an answer may have
    several parts."""
    found = text.find(quoted, start)
    if found < 0:
        found = text.rfind(quoted, 0, start + len(quoted))
    return (found, found + len(quoted)) if found >= 0 else None


def _utf8_length(character: str) -> int:
    code = ord(character)
    return 1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF)


def _list(grounding: Any, key: str) -> list[Any]:
    items = grounding.get(key) if isinstance(grounding, dict) else None
    return items if isinstance(items, list) else []
