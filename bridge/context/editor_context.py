"""Shortens the blocks in which editors repeat their state.

A block that tells the same as the one before becomes a short mark; a changed block becomes a block with only
the changes, if that is shorter. Whether a block is shortened depends on the earlier blocks alone, so a turn
never changes later, and the upstream's cache of the prompt stays valid. Every twentieth block is sent whole,
because a model loses track of a long chain of changes.

This edit runs after the conversation was cut: the first block behind the cut must be whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bridge.context.editor_blocks import BlockFinder
from bridge.context.editor_forms import FORMS, Form, is_shortened
from bridge.context.estimate import text_tokens
from bridge.gemini.types import USER, Content, GenerateRequest, Part
from bridge.settings.editors import EditorBlock

WHOLE_EVERY = 20


class Marked(NamedTuple):
    """What the edit made of a request. `request` is the same object if nothing changed."""

    request: GenerateRequest
    blocks: int = 0  #: how many were shortened
    saved: int = 0  #: estimated tokens


class EditorContext:
    """Holds only the table of blocks, so one object serves all requests."""

    name = "editor_context"

    def __init__(self, blocks: Sequence[EditorBlock]) -> None:
        self._finder = BlockFinder(blocks)
        self._forms = {block.name: FORMS[block.form](block) for block in blocks}

    def apply(self, request: GenerateRequest) -> Marked:
        """A request in Gemini's own format stays as it is: Gemini CLI sends only changes itself."""
        if request.native:
            return Marked(request)
        chains: dict[str, _Chain] = {}
        changed: dict[int, Content] = {}
        for position, turn in enumerate(request.contents):
            if turn.role == USER and (edited := self._edited(turn, chains)) is not turn:
                changed[position] = edited
        if not changed:
            return Marked(request)
        contents = tuple(changed.get(position, turn) for position, turn in enumerate(request.contents))
        blocks, saved = (
            sum(getattr(chain, name) for chain in chains.values()) for name in ("shortened", "saved")
        )
        return Marked(replace(request, contents=contents), blocks, saved)

    def _edited(self, turn: Content, chains: dict[str, _Chain]) -> Content:
        parts = tuple([self._part(part, chains) for part in turn.parts])
        unchanged = all(before is after for before, after in zip(turn.parts, parts, strict=True))
        return turn if unchanged else replace(turn, parts=parts)

    def _part(self, part: Part, chains: dict[str, _Chain]) -> Part:
        if not isinstance(part.data, str) or not (found := self._finder.in_text(part.data)):
            return part
        pieces, place = [], 0
        for each in found:
            block = part.data[each.start : each.end]
            chain = self._chain(each.opener.block.name, chains)
            pieces += [part.data[place : each.start], chain.told(block, each.opener.is_update)]
            place = each.end
        text = "".join([*pieces, part.data[place:]])
        return part if text == part.data else replace(part, data=text)

    def _chain(self, name: str, chains: dict[str, _Chain]) -> _Chain:
        if name not in chains:
            chains[name] = _Chain(self._forms[name])
        return chains[name]


class _Chain:
    """The blocks of one kind in a conversation, from the first to the last."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._seen = 0
        self._told: Any = None  #: the state that the model knows; None: it must be told whole
        self.shortened = 0
        self.saved = 0

    def told(self, block: str, is_update: bool) -> str:
        """The text that stands for this block."""
        content = block.removeprefix(self._form.block.open).removesuffix(self._form.block.close)
        self._seen += 1
        if is_update or is_shortened(content):
            self._told = None
            return block
        state, told = self._form.state(content), self._told
        self._told = state
        if told is None or state is None or self._seen % WHOLE_EVERY == 1:
            return block
        changes = self._form.changes(told, state)
        if changes is None or len(shorter := self._form.wrapped(changes)) >= len(block):
            return block
        self._told = self._form.after(told, state)
        self.shortened += 1
        self.saved += max(text_tokens(block) - text_tokens(shorter), 0)
        return shorter
