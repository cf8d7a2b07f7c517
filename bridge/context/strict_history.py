"""Drops a turn of the user together with the invalid turns of the model that follow it, if the operator wants
so. Without this edit, the model adapter drops turns without content, and the user's words stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from bridge.context.base import Edited, RequestEdit
from bridge.gemini.history import is_blank
from bridge.gemini.types import MODEL, Content, FunctionCall, FunctionResponse, GenerateRequest
from bridge.settings.context import STRICT

INVALID_TURNS = "history.invalid_turns"


class StrictHistory(RequestEdit):
    """Calls and results stay, because each needs the other."""

    name = "strict_history"

    def is_on(self) -> bool:
        return self.settings.history == STRICT

    def apply(self, request: GenerateRequest) -> Edited:
        if all(map(_is_valid, request.contents)):
            return Edited(request)
        kept = tuple(_curated(request.contents))
        dropped = len(request.contents) - len(kept)
        if not dropped:
            return Edited(request)
        return Edited(replace(request, contents=kept), dropped, (INVALID_TURNS,))


def _is_valid(content: Content) -> bool:
    return content.role != MODEL or not all(map(is_blank, content.parts))


def _curated(contents: Iterable[Content]) -> Iterator[Content]:
    asked: list[Content] = []  #: the turn of the user, until its answer is known
    for is_model, group in groupby(contents, key=lambda content: content.role == MODEL):
        turn = list(group)
        if not is_model:
            asked = turn
        elif all(map(_is_valid, turn)) or any(map(_uses_tools, (*asked, *turn))):
            yield from asked
            yield from turn
            asked = []
        else:
            asked = []
    yield from asked


def _uses_tools(content: Content) -> bool:
    return any(isinstance(part.data, FunctionCall | FunctionResponse) for part in content.parts)
