"""Converts the results of Google's built-in search to the format of the Interactions API."""

from __future__ import annotations

from typing import Any

from bridge.gemini.grounding import web_search_from
from bridge.gemini.types import JsonObject

StepsAndDeltas = list[tuple[dict[str, Any], dict[str, Any]]]


def citations(grounding: JsonObject | None) -> list[dict[str, Any]]:
    """Citations: spans of the text with their web pages, or only the pages if Gemini gives no spans."""
    search = web_search_from(grounding)
    if grounding is None or search is None:
        return []
    supports = [each for each in _list(grounding, "groundingSupports") if isinstance(each, dict)]
    chunks = [each.get("web") or {} for each in _list(grounding, "groundingChunks") if isinstance(each, dict)]
    cited = [
        {**_citation(chunks[index].get("uri"), chunks[index].get("title")), **_span(support.get("segment"))}
        for support in supports
        for index in _list(support, "groundingChunkIndices")
        if type(index) is int and 0 <= index < len(chunks) and chunks[index].get("uri")
    ]
    return cited or [_citation(page.url, page.title) for page in search.pages]


def _citation(url: Any, title: Any) -> dict[str, Any]:
    return {"type": "url_citation", "url": str(url), "title": str(title or url)}


def _span(segment: Any) -> dict[str, int]:
    if not isinstance(segment, dict) or type(segment.get("endIndex")) is not int:
        return {}
    return {"start_index": segment.get("startIndex") or 0, "end_index": segment["endIndex"]}


def search_steps(grounding: JsonObject | None, call_id: str) -> StepsAndDeltas:
    """Each step with the delta that completes it."""
    search = web_search_from(grounding)
    if grounding is None or search is None:
        return []
    entry_point = grounding.get("searchEntryPoint")
    suggestions = entry_point.get("renderedContent") if isinstance(entry_point, dict) else None
    result = [{"search_suggestions": suggestions}] if isinstance(suggestions, str) else []
    call: dict[str, Any] = {"type": "google_search_call", "id": call_id, "arguments": {}}
    answer: dict[str, Any] = {"type": "google_search_result", "call_id": call_id, "result": []}
    return [
        (call, {"type": call["type"], "arguments": {"queries": search.queries}}),
        (answer, {"type": answer["type"], "result": result}),
    ]


def _list(source: JsonObject, key: str) -> list[Any]:
    value = source.get(key)
    return value if isinstance(value, list) else []
