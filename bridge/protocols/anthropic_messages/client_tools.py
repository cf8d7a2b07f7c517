"""Anthropic's client tools as functions.

Anthropic's models know the inputs of these tools, so requests do not declare them. The client runs the tools
itself. Gemini gets a schema of the documented inputs, and the client gets calls with the name and the inputs
that it expects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from bridge.gemini.types import FunctionDeclaration, JsonObject
from bridge.protocols.json_reading import each_object, optional, required_name

Schema = dict[str, Any]

_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_POINT = {"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2}
_RANGE = {"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2}


def _schema(required: tuple[str, ...], **properties: JsonObject) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _about(description: str, shape: JsonObject) -> Schema:
    return {**shape, "description": description}


def _one_of(*choices: str) -> Schema:
    return {"type": "string", "enum": list(choices)}


# --- bash, text editor, memory -----------------------------------------------------------------------


def _bash(_tool: JsonObject, _version: str) -> tuple[str, Schema]:
    return "Runs a command in a bash session that keeps its state between calls.", _schema(
        (),
        command=_about("The command to run. Required unless the session is restarted.", _TEXT),
        restart=_about("True restarts the session.", {"type": "boolean"}),
    )


_EDITOR_FIELDS = {
    "path": _about("The absolute path of the file or directory.", _TEXT),
    "file_text": _about("For create: the content of the file.", _TEXT),
    "view_range": _about("For view: the first and the last line, from 1; -1 is the end of the file.", _RANGE),
    "insert_line": _about("For insert: the text goes behind this line; 0 is the start of the file.", _WHOLE),
    "old_str": _about("For str_replace: the text to replace; it must occur exactly once.", _TEXT),
}
#: The text of `insert`: the first versions take it in `new_str`, the later ones in `insert_text`.
_REPLACEMENT = {
    "new_str": _about("For str_replace: the new text. Empty or missing deletes the old text.", _TEXT),
    "insert_text": _about("For insert: the text to insert.", _TEXT),
}
_OLD_REPLACEMENT = {
    "new_str": _about("For str_replace: the new text. For insert: the text to insert.", _TEXT),
}
_EDITOR_WITH_UNDO = ("20241022", "20250124")
_EDITOR_WITH_INSERT_TEXT = "20250728"


def _text_editor(_tool: JsonObject, version: str) -> tuple[str, Schema]:
    commands = ["view", "create", "str_replace", "insert"]
    commands += ["undo_edit"] if version in _EDITOR_WITH_UNDO else []
    texts = _REPLACEMENT if version >= _EDITOR_WITH_INSERT_TEXT else _OLD_REPLACEMENT
    return "Views, creates and edits text files.", _schema(
        ("command", "path"), command=_one_of(*commands), **_EDITOR_FIELDS, **texts
    )


def _memory(_tool: JsonObject, _version: str) -> tuple[str, Schema]:
    return (
        "Reads and changes files below /memories, which last beyond this conversation. View the directory "
        "before a task, and note in it what a later conversation needs.",
        _schema(
            ("command",),
            command=_one_of("view", "create", "str_replace", "insert", "delete", "rename"),
            **{
                **_EDITOR_FIELDS,
                "path": _about("For all commands but rename: a path below /memories.", _TEXT),
            },
            **_REPLACEMENT,
            old_path=_about("For rename: the current path.", _TEXT),
            new_path=_about("For rename: the new path.", _TEXT),
        ),
    )


# --- computer ----------------------------------------------------------------------------------------

_ACTIONS = (
    "key",
    "type",
    "mouse_move",
    "left_click",
    "left_click_drag",
    "right_click",
    "middle_click",
    "double_click",
    "screenshot",
    "cursor_position",
)
_LATER_ACTIONS = ("left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click")
_FIRST_COMPUTER = "20241022"
_COMPUTER_FIELDS = {
    "coordinate": _about(
        "x and y in pixels from the top left corner: where to act, or where to drag to.", _POINT
    ),
    "text": _about("The text to type, or the keys to press or hold, such as ctrl+s.", _TEXT),
}
_LATER_COMPUTER_FIELDS = {
    "start_coordinate": _about("For left_click_drag: where the drag starts.", _POINT),
    "scroll_direction": _one_of("up", "down", "left", "right"),
    "scroll_amount": _about("For scroll: how many clicks of the wheel.", _WHOLE),
    "duration": _about("For hold_key and wait: seconds.", {"type": "number"}),
}
_REGION = _about(
    "For zoom: x and y of the top left and the bottom right corner.", {**_POINT, "minItems": 4, "maxItems": 4}
)


def _computer(tool: JsonObject, version: str) -> tuple[str, Schema]:
    first, zoom = version == _FIRST_COMPUTER, tool.get("enable_zoom") is True
    actions = (*_ACTIONS, *(() if first else _LATER_ACTIONS), *(("zoom",) if zoom else ()))
    fields = {**_COMPUTER_FIELDS, **({} if first else _LATER_COMPUTER_FIELDS)}
    fields |= {"region": _REGION} if zoom else {}
    width, height = tool.get("display_width_px"), tool.get("display_height_px")
    return (
        "Controls the screen, mouse and keyboard of a computer. Take a screenshot to see the result of an "
        f"action. The screen is {width} pixels wide and {height} pixels high.",
        _schema(("action",), action=_one_of(*actions), **fields),
    )


_TOOLS: Mapping[str, Callable[[JsonObject, str], tuple[str, Schema]]] = {
    "bash": _bash,
    "text_editor": _text_editor,
    "memory": _memory,
    "computer": _computer,
}


def client_tool(kind: str, tool: JsonObject, path: str) -> FunctionDeclaration | None:
    """The declaration of a tool whose kind is a family and a date, or None if it is of another family."""
    family, _, version = kind.rpartition("_")
    describe = _TOOLS.get(family)
    if describe is None:
        return None
    about, schema = describe(tool, version)
    if longest := tool.get("max_characters"):
        about += f" A view shows at most {longest} characters."
    return FunctionDeclaration(required_name(tool, path), with_examples(about, tool, path), schema)


def with_examples(description: str | None, tool: JsonObject, path: str) -> str | None:
    """The description with the examples of inputs, for which Gemini has no field."""
    examples = optional(tool, "input_examples", list, path) or []
    if not examples:
        return description
    inputs = [dict(example) for _, example in each_object(examples, f"{path}.input_examples")]
    lines = [description or "", "Examples of inputs:", *(orjson.dumps(each).decode() for each in inputs)]
    return "\n".join(lines).lstrip()
