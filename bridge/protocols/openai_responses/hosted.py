"""Output items of the tools that Gemini runs itself: search, executed code and drawn images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from bridge.gemini.grounding import Citation, WebSearch
from bridge.gemini.media import media_from_url
from bridge.gemini.types import InlineData, JsonObject, OtherData, Part, PartData
from bridge.protocols.json_reading import each_object, optional

NewId = Callable[[str], str]

CODE_EVENTS = "response.code_interpreter_call"
IMAGE_EVENTS = tuple(
    f"response.image_generation_call.{state}" for state in ("in_progress", "generating", "completed")
)
SEARCH_EVENTS = tuple(
    f"response.web_search_call.{state}" for state in ("in_progress", "searching", "completed")
)

_CODE, _RESULT = "executableCode", "codeExecutionResult"
_OK, _FAILED = "OUTCOME_OK", "OUTCOME_FAILED"

#: The first characters of an image in base64, which name its kind. The vendor's item has no media type.
_IMAGE_KINDS = {"iVBOR": "image/png", "/9j/": "image/jpeg", "UklGR": "image/webp", "R0lGOD": "image/gif"}


def search_item(search: WebSearch, new_id: NewId) -> dict[str, Any]:
    sources = [{"type": "url", "url": page.url} for page in search.pages]
    action = {"type": "search", "query": search.query, "queries": search.queries, "sources": sources}
    return {"type": "web_search_call", "id": new_id("ws_"), "action": action}


def annotation(citation: Citation, offset: int) -> dict[str, Any]:
    """`offset` is where the message starts in the text of the whole answer."""
    return {
        "type": "url_citation",
        "start_index": citation.start - offset,
        "end_index": citation.end - offset,
        "url": citation.source.url,
        "title": citation.source.title,
    }


# --- executed code ------------------------------------------------------------------------------------


class HostedItem(Protocol):
    """An item of a tool that runs on a server. It is open until its result has arrived in later parts."""

    takes_signature: bool  #: the reasoning before the item carries its signature

    @property
    def item(self) -> Mapping[str, Any]: ...

    def opening(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """The events of the item's beginning."""

    def add(self, data: PartData) -> bool:
        """Add a result. Returns whether the data is one."""

    @property
    def complete(self) -> bool:
        """Whether no other part of the result can follow."""

    def closing(self) -> Iterable[str]:
        """The events before the item's end."""

    def finished(self) -> dict[str, Any]:
        """The fields of the finished item."""


class ExecutedCode:
    """Code that Gemini executes. The result and its images arrive as later parts."""

    takes_signature = False
    complete = False

    def __init__(self, code: str, new_id: NewId) -> None:
        self.code = code
        self.item = {
            "type": "code_interpreter_call",
            "id": new_id("ci_"),
            "container_id": new_id("cntr_"),
            "code": "",
            "outputs": None,
            "status": "in_progress",
        }
        self._outputs: list[dict[str, Any]] = []
        self.status = "incomplete"  #: until the result arrives

    def opening(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield f"{CODE_EVENTS}.in_progress", {}
        yield f"{CODE_EVENTS}_code.delta", {"delta": self.code}
        yield f"{CODE_EVENTS}_code.done", {"code": self.code}
        yield f"{CODE_EVENTS}.interpreting", {}

    def closing(self) -> Iterable[str]:
        return (f"{CODE_EVENTS}.completed",) if self.status == "completed" else ()

    def add(self, data: PartData) -> bool:
        """Add a result or an image that the code made. Returns whether the data is one."""
        if isinstance(data, OtherData) and data.field == _RESULT and isinstance(data.value, dict):
            self.status = "completed" if data.value.get("outcome") == _OK else "failed"
            self._outputs.append({"type": "logs", "logs": str(data.value.get("output") or "")})
            return True
        if isinstance(data, InlineData) and is_image(data):
            self._outputs.append({"type": "image", "url": f"data:{data.mime_type};base64,{data.data}"})
            return True
        return False

    def finished(self) -> dict[str, Any]:
        return {"code": self.code, "outputs": self._outputs or None, "status": self.status}


def executed_code(data: PartData, new_id: NewId) -> ExecutedCode | None:
    if not isinstance(data, OtherData) or data.field != _CODE or not isinstance(data.value, dict):
        return None
    return ExecutedCode(str(data.value.get("code") or ""), new_id)


def code_parts(item: JsonObject, path: str) -> list[Part]:
    """The parts of an executed code in the history."""
    code = optional(item, "code", str, path)
    executed = [] if code is None else [Part(OtherData(_CODE, {"language": "PYTHON", "code": code}))]
    outputs = list(each_object(optional(item, "outputs", list, path) or [], f"{path}.outputs"))
    if not executed or not outputs:
        return executed
    logs = [str(output["logs"]) for _, output in outputs if output.get("logs")]
    images = [media_from_url(str(output["url"]), where) for where, output in outputs if output.get("url")]
    outcome = _FAILED if item.get("status") == "failed" else _OK
    result = Part(OtherData(_RESULT, {"outcome": outcome, "output": "\n".join(logs)}))
    return [*executed, result, *map(Part, images)]


# --- images -------------------------------------------------------------------------------------------


def is_image(data: InlineData) -> bool:
    return data.mime_type.startswith("image/")


def image_item(new_id: NewId) -> dict[str, Any]:
    return {"type": "image_generation_call", "id": new_id("ig_"), "result": None}


def image_kind(base64: str) -> str:
    return next((kind for start, kind in _IMAGE_KINDS.items() if base64.startswith(start)), "image/png")
