"""Google's search results, fetched pages, citations and images in the format of Messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bridge.gemini.grounding import Citation, web_search_from
from bridge.gemini.types import InlineData, JsonObject

IMAGE_NOTE = "[Gemini made an image ("


def image_note(image: InlineData) -> str:
    """A text for the user instead of an image."""
    advice = "Answers of the Messages API cannot contain images; /v1/chat/completions returns them."
    return f"{IMAGE_NOTE}{image.mime_type}). {advice}]"


class ServerCall(NamedTuple):
    """A call of a server tool and its result."""

    tool: str
    input: dict[str, Any]
    result: Any
    requests: int = 1

    @property
    def result_type(self) -> str:
        return f"{self.tool}_tool_result"


def server_calls(metadata: JsonObject) -> list[ServerCall]:
    """The search and the fetched pages that the candidate's metadata names."""
    return [*_searches(metadata.get("groundingMetadata")), *_fetches(metadata.get("urlContextMetadata"))]


def server_tool_usage(calls: list[ServerCall]) -> dict[str, Any]:
    if not calls:
        return {}
    counts = {
        f"{tool}_requests": sum(call.requests for call in calls if call.tool == tool)
        for tool in ("web_search", "web_fetch")
    }
    return {"server_tool_use": counts}


def citation(cited: Citation, text: str) -> dict[str, Any]:
    """`cited_text` is the part of the answer: Gemini does not send the text of the page."""
    return {
        "type": "web_search_result_location",
        "url": cited.source.url,
        "title": cited.source.title,
        "encrypted_index": "",
        "cited_text": text[cited.start : cited.end],
    }


def _searches(grounding: JsonObject | None) -> list[ServerCall]:
    search = web_search_from(grounding)
    if search is None:
        return []
    results = [
        {
            "type": "web_search_result",
            "title": page.title,
            "url": page.url,
            "encrypted_content": "",
            "page_age": None,
        }
        for page in search.pages
    ]
    return [ServerCall("web_search", {"query": search.query}, results, max(1, len(search.queries)))]


# --- fetched pages -----------------------------------------------------------------------------------

_FETCHED = "URL_RETRIEVAL_STATUS_SUCCESS"
_ERROR_CODES: Mapping[Any, str] = {
    "URL_RETRIEVAL_STATUS_ERROR": "url_not_accessible",
    "URL_RETRIEVAL_STATUS_PAYWALL": "url_not_accessible",
    "URL_RETRIEVAL_STATUS_UNSAFE": "url_not_allowed",
}


def _fetches(metadata: Any) -> list[ServerCall]:
    fetched = metadata.get("urlMetadata") if isinstance(metadata, dict) else None
    pages = [page for page in fetched if isinstance(page, dict)] if isinstance(fetched, list) else []
    return [
        ServerCall("web_fetch", {"url": url}, _fetched(url, page.get("urlRetrievalStatus")))
        for page in pages
        if (url := str(page.get("retrievedUrl") or ""))
    ]


def _fetched(url: str, status: Any) -> dict[str, Any]:
    if status != _FETCHED:
        code = _ERROR_CODES.get(str(status), "unavailable")
        return {"type": "web_fetch_tool_result_error", "error_code": code}
    # The document is empty: Gemini reads the page, but does not send its text.
    source = {"type": "text", "media_type": "text/plain", "data": ""}
    document = {"type": "document", "source": source, "title": None, "citations": None}
    return {"type": "web_fetch_result", "url": url, "content": document, "retrieved_at": None}
