"""Long histories that the context steps shorten."""

from __future__ import annotations

from dataclasses import replace

from bridge.context import EDITS, LADDER
from bridge.context.clear_thinking import ClearThinking
from bridge.context.clear_tool_uses import ClearToolUses
from bridge.context.digests import turn_digests
from bridge.context.editor_context import EditorContext
from bridge.context.history import history_of
from bridge.context.ladder import shorten
from bridge.context.summary import next_cut
from bridge.context.transcript import transcript
from bridge.context.window import Window
from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    Part,
    Tool,
)
from bridge.settings.context import ContextSettings
from bridge.settings.editors import load_editors
from bridge.settings.source import PROJECT
from tests.attacks.measuring import Case, Work

SETTINGS = ContextSettings(history="strict")
EDITOR_CONTEXT = EditorContext(load_editors(PROJECT / "config" / "editors.toml"))
PICTURE = InlineData("image/png", "A" * 100)


def _round(call_id: str) -> tuple[Content, ...]:
    call = Part(FunctionCall("run", {"of": [call_id]}, call_id))
    result = Part(FunctionResponse("run", {"result": "found " * 100}, call_id, (PICTURE,)))
    return (
        Content(USER, (Part("Look."), Part(PICTURE))),
        Content(MODEL, (Part("I think.", thought=True), call)),
        Content(USER, (result,)),
        Content(MODEL, (Part("I think.", thought=True), Part("Done, naïvely."))),
    )


def _history(n: int) -> GenerateRequest:
    turns = [turn for number in range(n) for turn in _round(f"c{number}")]
    declared = tuple(FunctionDeclaration(f"f{number}", schema={"type": "object"}) for number in range(n))
    return GenerateRequest("m", (*turns, Content(USER, (Part("Go on."),))), tools=(Tool(declared),))


def _shortened(n: int) -> Work:
    """All steps are needed, and the last one drops half of the history."""
    request = _history(n)
    window = Window(limit=n * 30, reserve=0, grid=64, protected=100, least_saved=1)
    steps = [kind(SETTINGS) for kind in LADDER]
    return lambda: shorten(history_of(request)[0], window, steps)


def _tool_loop(n: int) -> Work:
    rounds = [turn for number in range(n) for turn in _round(f"c{number}")[1:3]]
    request = GenerateRequest("m", (Content(USER, (Part("Go."),)), *rounds))
    window = Window(limit=n * 30, reserve=0, grid=64, protected=100, least_saved=1)
    steps = [kind(SETTINGS) for kind in LADDER]
    return lambda: shorten(history_of(request)[0], window, steps)


def _edited(n: int) -> Work:
    """The history is sent twice, with invalid answers in it."""
    contents = _history(n).contents
    said = (Content(USER, (Part("a"),)), Content(MODEL))
    request = GenerateRequest("m", (*contents, *contents[1:], *said * n))
    edits = [kind(SETTINGS) for kind in EDITS]

    def work() -> None:
        edited = request
        for edit in edits:
            edited = edit.apply(edited).request

    return work


def _cleared_by_the_client(n: int) -> Work:
    """Each request of the conversation clears something again."""
    request = _history(n)
    uses = ClearToolUses.wished(SETTINGS, {"tool_uses": 1, "clear_tool_inputs": True})
    never = ClearToolUses.wished(SETTINGS, {"input_tokens": 1, "clear_at_least": 1 << 40})
    thinking = ClearThinking.wished(SETTINGS, {})
    return lambda: [edit.apply(request) for edit in (uses, never, thinking)]


def _states_of_editors(n: int) -> Work:
    state = "<environment_details>\n# Title\ntext\n# Time\n{n}\n</environment_details>"
    other = '<ide_context>{"activeFile": {"path": "a"}, "otherOpenFiles": ["b"]}</ide_context>'
    turns = [Content(USER, (Part(f"{state.replace('{n}', str(number))}\n{other}"),)) for number in range(n)]
    request = GenerateRequest("m", tuple(turns))
    return lambda: EDITOR_CONTEXT.apply(request)


def _state_with_many_sections(n: int) -> Work:
    sections = "".join(f"# Title\nsame {number}\n" for number in range(n))
    keys = ", ".join(f'"key{number}": {number}' for number in range(n))
    text = f"<environment_details>\n{sections}</environment_details>\n<ide_context>{{{keys}}}</ide_context>"
    request = GenerateRequest("m", (Content(USER, (Part(text),)),) * 3)
    return lambda: EDITOR_CONTEXT.apply(request)


def _unended_states(n: int) -> Work:
    request = GenerateRequest("m", (Content(USER, (Part("<rules>\n<ide_context>\n```\n```\n" * n),)),))
    return lambda: EDITOR_CONTEXT.apply(request)


def _summary_of_a_long_conversation(n: int) -> Work:
    """Its digests, the place of its next cut, and its text with less and less room."""
    texts = Content(USER, tuple(Part("a text ") for _ in range(n)))
    request = replace(_history(n), system=texts)
    history, _ = history_of(request)
    window = Window(limit=n * 30, reserve=0, grid=64, protected=100, least_saved=1 << 40)

    def work() -> None:
        turn_digests(request, (*history.turns, texts), "me")
        next_cut(history, window, SETTINGS)
        transcript(history.turns, room=n * 10)

    return work


CONTEXTS: dict[str, Case] = {
    "context: the summary of a long conversation": _summary_of_a_long_conversation,
    "context: states of editors": _states_of_editors,
    "context: a state with many sections": _state_with_many_sections,
    "context: states without an end": _unended_states,
    "context: a long conversation": _shortened,
    "context: a long tool loop": _tool_loop,
    "context: a history sent twice": _edited,
    "context: tool uses that the client clears": _cleared_by_the_client,
}
