"""The clients' conversations, independent of a protocol: a short question, or an agent's long history.

Every request has its own number near its end: like an agent's requests, all begin with the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: The request's number replaces these characters; both have the same length.
NUMBER_PLACE = "@@NUMBER@@"

TOOLS = 40
CALLS = 30
RESULT_CHARACTERS = 9_700

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    schema: Json


@dataclass(frozen=True, slots=True)
class Step:
    """One text and one tool call of the model, and the tool's result."""

    said: str
    call_id: str
    tool: str
    arguments: Json
    result: str


@dataclass(frozen=True, slots=True)
class Conversation:
    system: str
    question: str
    steps: tuple[Step, ...] = ()
    last: str | None = None  #: what the user says after the steps
    tools: tuple[Tool, ...] = ()


def _tool(number: int) -> Tool:
    properties: Json = {
        f"field_{each}": {
            "type": ("string", "integer", "boolean")[each % 3],
            "description": f"Field {each} of tool {number}. It takes a path, a count or a switch.",
        }
        for each in range(9)
    }
    change = {"before": {"type": "string"}, "after": {"type": "string"}, "where": {"enum": ["first", "all"]}}
    properties["changes"] = {
        "type": "array",
        "items": {"type": "object", "properties": change, "required": ["before", "after"]},
    }
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["field_0"],
        "additionalProperties": False,
    }
    description = f"Tool {number} works on files of the project and tells what came of it. " * 4
    return Tool(f"tool_{number}", description, schema)


def _listing(characters: int, number: int) -> str:
    lines = (
        f'{line:5d}\tdef step_{number}_{line}(value):  # "kept"\n' for line in range(characters // 40 + 1)
    )
    return "".join(lines)[:characters]


def _step(number: int) -> Step:
    return Step(
        said=f"Next I look at part {number} of the project.",
        call_id=f"call_bench_{number:04d}",
        tool=f"tool_{number % TOOLS}",
        arguments={"field_0": f"src/part_{number}.py", "field_1": number},
        result=_listing(RESULT_CHARACTERS, number),
    )


SHORT = Conversation("You are a helpful assistant.", f"Say something, for the {NUMBER_PLACE}th time.")

LONG = Conversation(
    system="You are a careful engineer who works on a project with the tools you are given. " * 12,
    question="Please tidy up the project. " + _listing(1500, 0),
    steps=tuple(map(_step, range(CALLS))),
    last=f"Now sum it up. This is request {NUMBER_PLACE}.",
    tools=tuple(map(_tool, range(TOOLS))),
)
