"""Compares blocks of an editor: the state that a block tells, and the text that tells only the changes.

These texts never change between versions of the bridge without need: a changed text changes the prompt, and
the upstream's cache of it is lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeGuard

import orjson

from bridge.settings.editors import JSON, SECTIONS, WHOLE, EditorBlock

UNCHANGED = "(unchanged since the last message)"
CHANGES = "(only what changed since the last message)"
#: A cursor that moved by fewer lines counts as not moved.
CURSOR_LINES = 10
#: A JSON block with more levels is no block of an editor, and stays as it is.
LEVELS = 16

Object = dict[str, Any]


#: The text of each section by its title. The number tells sections with equal titles apart.
Sections = dict[tuple[str, int], str]


class Form(ABC):
    """How the content of a block is compared and told. A state is whatever `state` returns."""

    def __init__(self, block: EditorBlock) -> None:
        self.block = block

    @abstractmethod
    def state(self, content: str) -> Any:
        """The state that this content tells; None if it cannot be read, and must stay as it is."""

    @abstractmethod
    def changes(self, told: Any, state: Any) -> str | None:
        """The text that tells what changed; empty if nothing did, None if the block must be sent whole."""

    def after(self, told: Any, state: Any) -> Any:
        """The state that the model knows after an update."""
        return state

    def wrapped(self, changes: str) -> str:
        """The block that tells these changes instead of the whole state; empty changes: nothing changed."""
        text = f"{CHANGES}\n{changes}" if changes else UNCHANGED
        if self.block.close_stays:
            return f"{self.block.open}\n{text}\n\n"
        return f"{self.block.open}\n{text}\n{self.block.close}"


def is_shortened(content: str) -> bool:
    """Whether a form made this content. It then stays as it is, so that an edited history does too."""
    return content.strip().startswith((UNCHANGED, CHANGES))


class WholeForm(Form):
    def state(self, content: str) -> str:
        return _trimmed(content)

    def changes(self, told: str, state: str) -> str | None:
        return "" if told == state else None


class SectionsForm(Form):
    """Sections under headings."""

    def state(self, content: str) -> Sections:
        sections: Sections = {}
        titles: Counter[str] = Counter()
        for text in _split(content, self.block.heading):
            title = text.partition("\n")[0].partition(":")[0].strip()
            titles[title] += 1
            sections[title, titles[title]] = _trimmed(text)
        return sections

    def changes(self, told: Sections, state: Sections) -> str:
        changed = [
            text
            for (title, number), text in state.items()
            if title not in self.block.volatile and not self._is_same(title, told.get((title, number)), text)
        ]
        gone = [f"(no longer: {title.strip('# ')})" for title, number in told if (title, number) not in state]
        return "\n\n".join([*changed, *gone])

    def _is_same(self, title: str, told: str | None, text: str) -> bool:
        if told is None or told == text or title not in self.block.unordered:
            return told == text
        return sorted(told.split("\n")) == sorted(text.split("\n"))


class JsonForm(Form):
    """A JSON object. A cursor that moved by a few lines keeps the place in the state that was told last."""

    def state(self, content: str) -> Object | None:
        try:
            value = orjson.loads(content)
        except orjson.JSONDecodeError:
            return None
        return value if isinstance(value, dict) and _is_shallow(value, LEVELS) else None

    def changes(self, told: Object, state: Object) -> str:
        found = self._changed(told, state)
        return orjson.dumps(found, option=orjson.OPT_SORT_KEYS).decode() if found else ""

    def after(self, told: Object, state: Object) -> Any:
        return _with_told_cursors(told, state)

    def wrapped(self, changes: str) -> str:
        tag = self.block.update
        return f"<{tag}>{changes or '{}'}</{tag}>" if tag else super().wrapped(changes)

    def _changed(self, told: Object, state: Object) -> Object:
        """The members that differ; a member that is gone is null."""
        found: Object = {key: None for key in told if key not in state}
        for key, value in state.items():
            before = told.get(key)
            if _can_be_merged(before, value):
                if deeper := self._changed(before, value):
                    found[key] = deeper
            elif key not in told or not self._is_same(key, before, value):
                found[key] = value
        return found

    def _is_same(self, key: str, before: Any, value: Any) -> bool:
        if isinstance(before, dict) and isinstance(value, dict) and _is_cursor(before) and _is_cursor(value):
            return _is_near(before, value)
        if key in self.block.unordered and isinstance(before, list) and isinstance(value, list):
            return sorted(map(orjson.dumps, before)) == sorted(map(orjson.dumps, value))
        return bool(before == value)


FORMS: Mapping[str, type[Form]] = {WHOLE: WholeForm, SECTIONS: SectionsForm, JSON: JsonForm}


def _trimmed(text: str) -> str:
    """Without spaces at the ends of lines."""
    return "\n".join(map(str.rstrip, text.strip().split("\n")))


def _split(content: str, heading: str) -> list[str]:
    """The sections; the first one may have no heading."""
    before, *sections = f"\n{content.strip()}".split(f"\n{heading}")
    return [*filter(None, [before]), *(heading + section for section in sections)]


def _is_shallow(value: Any, levels: int) -> bool:
    """Whether a value can be compared without deep recursion."""
    if not isinstance(value, dict | list):
        return True
    members = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_shallow(member, levels - 1) for member in members)


def _is_cursor(value: Object) -> bool:
    return type(value.get("line")) is int


def _is_near(before: Object, cursor: Object) -> bool:
    return bool(abs(before["line"] - cursor["line"]) <= CURSOR_LINES)


def _is_same_file(before: Object, value: Object) -> bool:
    """A cursor or a selection in another file cannot be compared."""
    return bool(before.get("path") == value.get("path"))


def _can_be_merged(before: Any, value: Any) -> TypeGuard[Object]:
    """Whether the changed members of `before` alone tell the change."""
    if not isinstance(before, dict) or not isinstance(value, dict):
        return False
    return _is_same_file(before, value) and not _is_cursor(value)


def _with_told_cursors(told: Any, state: Any) -> Any:
    """The state with the cursors that the model was told last. Otherwise a cursor that moves by a few lines
    each time would never be told."""
    if not isinstance(told, dict) or not isinstance(state, dict):
        return state
    if _is_cursor(told) and _is_cursor(state):
        return told if _is_near(told, state) else state
    if not _is_same_file(told, state):
        return state
    return {key: _with_told_cursors(told.get(key), value) for key, value in state.items()}
