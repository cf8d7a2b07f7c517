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
    queries = [query for query in grounding.get("webSearchQueries") or () if isinstance(query, str)]
    pages = [
        chunk.get("web") or {} for chunk in grounding.get("groundingChunks") or () if isinstance(chunk, dict)
    ]
    if not queries and not pages:
        return None
    results = [_result(page) for page in pages if page.get("uri")]
    return SearchBlocks(new_id("srvtoolu_"), ", ".join(queries), max(1, len(queries)), results)


def _result(page: JsonObject) -> dict[str, Any]:
    return {
        "type": "web_search_result",
        "title": page.get("title") or page["uri"],
        "url": page["uri"],
        "encrypted_content": "",
        "page_age": None,
    }
