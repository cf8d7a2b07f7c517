"""Google's search results in the format of Anthropic's server tool."""

from __future__ import annotations

from typing import Any

from bridge.gemini.grounding import WebSource


def search_result(page: WebSource) -> dict[str, Any]:
    return {
        "type": "web_search_result",
        "title": page.title,
        "url": page.url,
        "encrypted_content": "",
        "page_age": None,
    }
