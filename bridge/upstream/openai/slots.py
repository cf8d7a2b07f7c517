"""Collects the tool calls of one answer from the pieces in which servers send them.

Servers disagree on `index` and `id`: both may be missing, repeated, wrong or late. An index is only a label.
An id that is known decides, unless several calls have it; else the label does, unless the call with that
label is whole and another one begins.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import Any

import orjson

from bridge.errors import UpstreamMalformed
from bridge.gemini.json_text import can_be_serialised, count_brackets

_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')
_SHORT = 64  #: only shorter arguments can be an empty object
_DEPTH = {"{": 1, "[": 1, "}": -1, "]": -1}


class JsonDepth:
    """Finds out whether a JSON object that arrives in pieces is whole; looks at each character once."""

    def __init__(self) -> None:
        self.whole = False
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, text: str) -> None:
        place = 0
        if self._escaped and text:
            self._escaped, place = False, 1
        while (found := (_INSIDE if self._in_string else _OUTSIDE).search(text, place)) is not None:
            place = self._read(found[0], found.end(), len(text))

    def _read(self, mark: str, end: int, length: int) -> int:
        """Returns where the search continues."""
        if mark == "\\":
            self._escaped = end == length
            return end + 1
        if mark == '"':
            self._in_string = not self._in_string
        else:
            self._depth += _DEPTH[mark]
            self.whole = self._depth <= 0
        return end


class Slot:
    """One call."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.taken = False  #: the client has the call
        self._pieces: list[str] = []
        self._length = 0  #: of all pieces
        self._object: dict[str, Any] | None = None  #: arguments that came as an object
        self._depth = JsonDepth()

    @property
    def begun(self) -> bool:
        """Whether arguments came."""
        return bool(self._pieces) or self._object is not None

    @property
    def whole(self) -> bool:
        return self._object is not None or self._depth.whole

    @property
    def is_empty(self) -> bool:
        return not self._object and self._length < _SHORT and "".join(self._pieces).strip() in ("", "{}")

    def repeats(self, arguments: Any) -> bool:
        """Whether the arguments are those that this whole call has, or none."""
        if isinstance(arguments, dict):
            return arguments == self._object
        if not arguments or (len(arguments) < _SHORT and arguments.strip() in ("", "{}")):
            return True
        return len(arguments) == self._length and arguments == "".join(self._pieces)

    def add(self, arguments: Any) -> None:
        if self.whole and self.repeats(arguments):
            return
        if self.whole and self.is_empty:  # an empty object came before the real one
            self._pieces, self._object, self._depth, self._length = [], None, JsonDepth(), 0
        if isinstance(arguments, dict):
            self._object = arguments
        elif arguments:
            self._pieces.append(arguments)
            self._length += len(arguments)
            self._depth.feed(arguments)

    def arguments(self) -> dict[str, Any] | None:
        """The arguments; None if they are not a JSON object."""
        if self._object is not None:
            return self._object
        text = "".join(self._pieces)
        if not text.strip():
            return {}
        found = _object_in(text)
        if found is None and len(self._pieces) > 1 and self._pieces[-1].startswith(self._pieces[-2]):
            return _object_in(self._pieces[-1])  # each piece held all arguments so far
        return found


def _object_in(text: str) -> dict[str, Any] | None:
    try:
        value = orjson.loads(text)
        if isinstance(value, str):  # JSON in a JSON string
            text, value = value, orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if value is None:
        return {}
    return value if isinstance(value, dict) and can_be_serialised(value, count_brackets(text)) else None


class ToolSlots:
    def __init__(self, declared: frozenset[str], server: str) -> None:
        self._declared = declared
        self._server = server
        self._slots: list[Slot] = []  #: not taken yet
        self._open: set[Slot] = set()  #: slots whose arguments are not whole
        self._by_id: dict[str, Slot] = {}
        self._by_label: dict[Hashable, Slot] = {}

    def __bool__(self) -> bool:
        """Whether the answer has a call."""
        return bool(self._by_label)

    def feed(self, deltas: Iterable[Any]) -> None:
        for position, delta in enumerate(deltas):
            if isinstance(delta, dict):
                self._add(position, delta)

    def _add(self, position: int, delta: dict[str, Any]) -> None:
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = _text(delta.get("id")), _text(function.get("name"))
        arguments = function.get("arguments")
        if not isinstance(arguments, str | dict | None):
            raise self._malformed(name)
        index = delta.get("index")
        label = index if isinstance(index, int) else ("position", position)
        slot = self._slot(label, call_id, name, arguments)
        if slot.taken and not slot.repeats(arguments):
            raise self._malformed(slot.name)
        self._name(slot, name)
        slot.add(arguments)
        (self._open.discard if slot.whole else self._open.add)(slot)

    def _slot(self, label: Hashable, call_id: str, name: str, arguments: Any) -> Slot:
        slot = self._known(label, call_id)
        if slot is None or self._begins_another(slot, call_id, name, arguments):
            slot = Slot()
            self._slots.append(slot)
        self._by_label[label] = slot
        if call_id:
            slot.id = slot.id or call_id
            self._by_id[call_id] = slot
        return slot

    def _known(self, label: Hashable, call_id: str) -> Slot | None:
        """Some servers give all calls of an answer one id: then the label decides between them."""
        labelled = self._by_label.get(label)
        if labelled is not None and labelled.id == call_id:
            return labelled
        return self._by_id.get(call_id) or labelled

    def _begins_another(self, slot: Slot, call_id: str, name: str, arguments: Any) -> bool:
        """Whether a delta with a name is the start of another call."""
        if not name or not slot.name:
            return False
        if call_id and slot.id and call_id not in self._by_id:
            return slot.whole or not slot.begun
        if slot.whole and not slot.is_empty:
            return name != slot.name or not slot.repeats(arguments)
        return name != slot.name and {name, slot.name} <= self._declared

    def _name(self, slot: Slot, name: str) -> None:
        if not name or name == slot.name:
            return
        if slot.begun and slot.name:
            raise self._malformed(slot.name)
        slot.name = name if name.startswith(slot.name) else slot.name + name

    def whole_calls(self) -> list[dict[str, Any]]:
        """The calls so far, if all of them are whole: the answer goes on with something else. The real
        arguments may follow an empty object."""
        uncertain = self._open or any(slot.is_empty for slot in self._slots)
        return [] if uncertain else self.calls(truncated=False)

    def calls(self, *, truncated: bool) -> list[dict[str, Any]]:
        """The calls in Gemini's form. `truncated`: the answer did not end by itself, so that the last call
        may be half a call, which is dropped."""
        found = []
        for slot in self._slots:
            slot.taken = True
            arguments = slot.arguments() if slot.begun or not truncated else None
            if slot.name and arguments is not None:
                call = {"id": slot.id} if slot.id else {}
                found.append({**call, "name": slot.name, "args": arguments})
            elif not truncated:
                raise self._malformed(slot.name)
        self._slots = []
        return found

    def _malformed(self, name: str) -> UpstreamMalformed:
        called = f"of the tool {name[:80]!r}" if name else "without a name"
        return UpstreamMalformed(f"{self._server} sent a malformed call {called}.")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
