"""The states of a response, and the events that may follow in each."""

from __future__ import annotations

from enum import Enum, auto

from bridge.protocols.base import Transitions
from bridge.protocols.openai_responses.hosted import CODE_EVENTS, IMAGE_EVENTS, SEARCH_EVENTS
from bridge.protocols.openai_responses.mcp_items import EVENTS as MCP_EVENTS


class ResponsesState(Enum):
    IDLE = auto()  #: nothing sent
    CREATED = auto()
    QUEUED = auto()  #: a background response before its work begins
    OPEN = auto()  #: between items
    ITEM = auto()  #: inside an output item
    TEXT = auto()  #: inside a text or a refusal of a message
    SUMMARY = auto()  #: inside a summary part of a reasoning item
    FAILED = auto()  #: final in most dialects; the bridge's own adds two events
    ENDING = auto()  #: response.done was sent, response.completed not yet
    DONE = auto()


_FAIL: dict[str, Enum] = {"response.failed": ResponsesState.FAILED}


TRANSITIONS: Transitions = {
    ResponsesState.IDLE: {"response.created": ResponsesState.CREATED},
    ResponsesState.CREATED: {
        "response.queued": ResponsesState.QUEUED,
        "response.in_progress": ResponsesState.OPEN,
        **_FAIL,
    },
    ResponsesState.QUEUED: {"response.in_progress": ResponsesState.OPEN, **_FAIL},
    ResponsesState.OPEN: {
        "response.output_item.added": ResponsesState.ITEM,
        "response.done": ResponsesState.ENDING,
        "response.completed": ResponsesState.DONE,
        "response.incomplete": ResponsesState.DONE,
        **_FAIL,
    },
    ResponsesState.ITEM: {
        "response.content_part.added": ResponsesState.TEXT,
        "response.reasoning_summary_part.added": ResponsesState.SUMMARY,
        "response.function_call_arguments.delta": ResponsesState.ITEM,
        "response.function_call_arguments.done": ResponsesState.ITEM,
        "response.custom_tool_call_input.delta": ResponsesState.ITEM,
        "response.custom_tool_call_input.done": ResponsesState.ITEM,
        f"{CODE_EVENTS}.in_progress": ResponsesState.ITEM,
        f"{CODE_EVENTS}_code.delta": ResponsesState.ITEM,
        f"{CODE_EVENTS}_code.done": ResponsesState.ITEM,
        f"{CODE_EVENTS}.interpreting": ResponsesState.ITEM,
        f"{CODE_EVENTS}.completed": ResponsesState.ITEM,
        **dict.fromkeys((*IMAGE_EVENTS, *SEARCH_EVENTS, *MCP_EVENTS), ResponsesState.ITEM),
        "response.compaction.compacting": ResponsesState.ITEM,
        "response.output_item.done": ResponsesState.OPEN,
        **_FAIL,
    },
    ResponsesState.TEXT: {
        "response.output_text.delta": ResponsesState.TEXT,
        "response.output_text.annotation.added": ResponsesState.TEXT,
        "response.refusal.delta": ResponsesState.TEXT,
        "response.refusal.done": ResponsesState.TEXT,
        "response.output_text.done": ResponsesState.TEXT,
        "response.content_part.done": ResponsesState.ITEM,
        **_FAIL,
    },
    ResponsesState.SUMMARY: {
        "response.reasoning_summary_text.delta": ResponsesState.SUMMARY,
        "response.reasoning_summary_text.done": ResponsesState.SUMMARY,
        "response.reasoning_summary_part.done": ResponsesState.ITEM,
        **_FAIL,
    },
    ResponsesState.FAILED: {"response.done": ResponsesState.ENDING},
    ResponsesState.ENDING: {"response.completed": ResponsesState.DONE},
    ResponsesState.DONE: {},
}
