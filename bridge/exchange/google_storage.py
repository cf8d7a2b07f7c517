"""Whether Google may store a prompt and its answer."""

from __future__ import annotations

from dataclasses import replace

from bridge.gemini.types import EMPTY, GenerateRequest


def without_storage(request: GenerateRequest) -> GenerateRequest:
    """The request with a store field that forbids it, even if the client allows it."""
    extra = {name: value for name, value in request.extra.items() if name != "store"}
    return replace(request, store=False, extra=extra or EMPTY)
