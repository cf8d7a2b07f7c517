"""What Google's search found, in the shape of Anthropic's server tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bridge.gemini.types import JsonObject


class SearchBlocks(NamedTuple):
    id: str
    query: str
    searches: int
    results: list[dict[str, Any]]


def search_blocks(grounding: JsonObject, new_id: Callable[[str], str]) -> SearchBlocks | None:
    """None if no search was made."""
    queries = [query for query in _list(grounding, "webSearchQueries") if isinstance(query, str)]
    found = [chunk.get("web") for chunk in _list(grounding, "groundingChunks") if isinstance(chunk, dict)]
    pages = [page for page in found if isinstance(page, dict)]
    if not queries and not pages:
        return None
    results = [_result(page) for page in pages if page.get("uri")]
    return SearchBlocks(new_id("srvtoolu_"), ", ".join(queries), max(1, len(queries)), results)


def _list(grounding: Any, key: str) -> list[Any]:
    items = grounding.get(key) if isinstance(grounding, dict) else None
    return items if isinstance(items, list) else []


def _result(page: JsonObject) -> dict[str, Any]:
    return {
        "type": "web_search_result",
        "title": page.get("title") or page["uri"],
        "url": page["uri"],
        "encrypted_content": "",
        "page_age": None,
    }
