"""Replaces old images, audio, videos and files by a sentence."""

from __future__ import annotations

from dataclasses import replace

from bridge.context.base import LadderStep, Shortened
from bridge.context.history import History
from bridge.context.window import Window
from bridge.gemini.types import Content, FileData, FunctionResponse, InlineData, Part

REMOVED_MEDIA = "removed_media"  #: the field of a tool's response that names the files


class OldMedia(LadderStep):
    name = "old_media"

    def apply(self, history: History, window: Window) -> Shortened:
        changed: dict[int, Content] = {}
        count = 0
        for position, turn in enumerate(history.turns[: history.before(window.protected, window.grid)]):
            if media := sum(map(_media_count, turn.parts)):
                changed[position] = replace(turn, parts=tuple([_without_media(part) for part in turn.parts]))
                count += media
        return Shortened(history.with_turns(changed), count)


def _media_count(part: Part) -> int:
    if isinstance(part.data, FunctionResponse):
        return len(part.data.media)
    return 1 if isinstance(part.data, InlineData | FileData) else 0


def _without_media(part: Part) -> Part:
    data = part.data
    if isinstance(data, InlineData | FileData):
        return Part(_sentence(data))
    if isinstance(data, FunctionResponse) and data.media:
        response = {**data.response, REMOVED_MEDIA: [_sentence(medium) for medium in data.media]}
        return replace(part, data=replace(data, response=response, media=()))
    return part


def _sentence(medium: InlineData | FileData) -> str:
    return f"A file of type {medium.mime_type or 'unknown'} was removed to save space."
