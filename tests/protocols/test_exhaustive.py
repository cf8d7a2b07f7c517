"""Mapping tables must contain every member of the mapped type."""

from __future__ import annotations

import ast

import pytest
from conversations import CONVERSATIONS
from gunicorn_bridge import ROOT
from transcripts import Run

from bridge import errors
from bridge.errors import BridgeError, concrete_errors
from bridge.gemini.finish import OUTCOMES, FinishReason, Outcome
from bridge.gemini.turn import Step
from bridge.protocols import PROTOCOLS
from bridge.protocols.openai_chat.machine import FINISH_REASONS

BY_NAME = {"ids": lambda value: getattr(value, "name", getattr(value, "__name__", None))}


@pytest.mark.parametrize("protocol", PROTOCOLS, **BY_NAME)
@pytest.mark.parametrize("kind", sorted(concrete_errors(), key=lambda kind: kind.__name__), **BY_NAME)
def test_every_error_has_a_message_and_a_status_in_every_protocol(protocol, kind):
    error = kind("What happened.", param="field", retry_after=1.2)
    own_words = kind is errors.ContextOverflow and not protocol.name.startswith("gemini_")
    assert ("long" if own_words else "What happened.") in str(protocol.error_body(error, "req_1"))
    assert 400 <= protocol.error_status(error) < 600


def test_the_error_tree_diagram_shows_every_class_with_its_status():
    drawing = errors.__doc__ or ""
    for error in concrete_errors():
        line = next(line for line in drawing.splitlines() if f" {error.__name__} " in line)
        words = line.split()
        assert words[words.index(error.__name__) + 1 :][:2] == [error.kind, str(error.status)]


def test_the_root_of_the_tree_is_never_raised():
    for path in (ROOT / "bridge").rglob("*.py"):
        raised = [
            node.exc.func.id
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Raise)
            and isinstance(node.exc, ast.Call)
            and isinstance(node.exc.func, ast.Name)
        ]
        assert BridgeError.__name__ not in raised


def test_every_finish_reason_has_an_outcome():
    assert set(OUTCOMES) == set(FinishReason)


def test_every_outcome_has_a_finish_reason_in_chat():
    assert set(FINISH_REASONS) == set(Outcome)


@pytest.mark.parametrize("protocol", PROTOCOLS, **BY_NAME)
def test_every_state_has_its_row_and_can_reach_the_end(protocol):
    table = protocol.machine.LEGAL
    assert set(table) == set(type(protocol.machine.START))
    for state in table:
        reached, waiting = set(), [state]
        while waiting:
            here = waiting.pop()
            reached.add(here)
            waiting.extend(set(table[here].values()) - reached)
        assert any(not table[here] for here in reached), f"{state} never ends"


@pytest.mark.parametrize("protocol", PROTOCOLS, **BY_NAME)
def test_every_step_has_a_handler(protocol):
    conversation = CONVERSATIONS[protocol.name]
    machine = Run(protocol, conversation.opening, caller=conversation.callers[""]).machine
    assert set(machine._on) == set(Step.__args__)
