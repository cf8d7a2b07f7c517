"""The queries and results of Google's built-in search, from an answer's `groundingMetadata`."""

from __future__ import annotations

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


def web_search_from(grounding: JsonObject | None) -> WebSearch | None:
    """The search that the answer used, or None."""
    queries = [query for query in _list(grounding, "webSearchQueries") if isinstance(query, str)]
    found = [chunk.get("web") for chunk in _list(grounding, "groundingChunks") if isinstance(chunk, dict)]
    webs = [web for web in found if isinstance(web, dict)]
    pages = [
        WebSource(str(web["uri"]), str(web.get("title") or web["uri"])) for web in webs if web.get("uri")
    ]
    return WebSearch(queries, pages) if queries or webs else None


def _list(grounding: Any, key: str) -> list[Any]:
    items = grounding.get(key) if isinstance(grounding, dict) else None
    return items if isinstance(items, list) else []
