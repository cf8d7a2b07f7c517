"""Anthropic's computer toolset: one declaration stands for a tool for each action.

Gemini gets a function for each action that the request leaves enabled. The prefix of its name keeps it apart
from the client's own tools: `key`, `type` and `wait` are names that a client may use itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.gemini.types import FunctionDeclaration, JsonObject
from bridge.protocols.json_reading import optional

TYPE = "computer_toolset_20260801"
NAME = "computer"  #: `toolset_name` of the calls
_PREFIX = f"{NAME}_toolset__"

_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_POINT = {"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2}
_CLICK = {"coordinate": _POINT, "text": _TEXT}
_FIELDS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "key": (("text",), {"text": _TEXT, "repeat": _WHOLE}),
    "hold_key": (("text", "duration"), {"text": _TEXT, "duration": _WHOLE}),
    "type": (("text",), {"text": _TEXT}),
    "cursor_position": ((), {}),
    "mouse_move": (("coordinate",), {"coordinate": _POINT}),
    "left_mouse_down": ((), {}),
    "left_mouse_up": ((), {}),
    "left_click": ((), _CLICK),
    "left_click_drag": (("start_coordinate", "coordinate"), {"start_coordinate": _POINT, **_CLICK}),
    "right_click": ((), _CLICK),
    "middle_click": ((), _CLICK),
    "double_click": ((), _CLICK),
    "triple_click": ((), _CLICK),
    "scroll": (
        ("scroll_direction", "scroll_amount"),
        {
            "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
            "scroll_amount": _WHOLE,
            **_CLICK,
        },
    ),
    "wait": (("duration",), {"duration": _WHOLE}),
    "screenshot": ((), {}),
    "zoom": (("region",), {"region": {**_POINT, "minItems": 4, "maxItems": 4}}),
}


def toolset_functions(tool: JsonObject, path: str) -> list[FunctionDeclaration]:
    configs = optional(tool, "configs", dict, path) or {}
    return [
        FunctionDeclaration(
            _PREFIX + action,
            f"The action {action} on the screen, mouse or keyboard of a computer. Coordinates are pixels.",
            {"type": "object", "properties": dict(fields), "required": list(required)},
        )
        for action, (required, fields) in _FIELDS.items()
        if (configs.get(action) or {}).get("enabled") is not False
    ]


def name_fields(function: str) -> dict[str, Any]:
    """The fields of a call's block that name its tool."""
    if not function.startswith(_PREFIX):
        return {"name": function}
    name = function.removeprefix(_PREFIX)
    return {"name": name, "toolset_name": NAME, "caller": {"type": "direct"}}


def function_name(name: str, toolset: str | None) -> str:
    """The function of a call that the client sends back."""
    return _PREFIX + name if toolset == NAME else name
