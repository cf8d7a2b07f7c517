"""How clients ask for a shorter conversation: what is read from requests, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.context import EDITS, LADDER
from bridge.errors import InvalidRequest
from bridge.gemini.context_steps import StepTaken
from bridge.gemini.types import ContextWish
from bridge.protocols import PROTOCOLS, anthropic_messages, openai_responses
from bridge.protocols.anthropic_messages.context_management import applied_edits
from bridge.protocols.base import Caller, ConvertedRequest
from bridge.settings.context import ContextSettings

USES, THINKING, COMPACT = "clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112"


def converted(*edits: Any, **more: Any) -> ConvertedRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, **more}
    if edits:
        body["context_management"] = {"edits": list(edits)}
    return anthropic_messages.PROTOCOL.to_gemini(body, Caller())


@pytest.mark.parametrize(
    ("edit", "options"),
    [
        ({}, {"input_tokens": 100_000}),
        ({"trigger": None, "keep": None, "clear_at_least": None}, {"input_tokens": 100_000}),
        ({"trigger": {"type": "tool_uses", "value": 9}}, {"tool_uses": 9}),
        ({"trigger": {"type": "input_tokens", "value": 1}}, {"input_tokens": 1}),
        ({"keep": {"type": "tool_uses", "value": 0}}, {"input_tokens": 100_000, "keep": 0}),
        (
            {"clear_at_least": {"type": "input_tokens", "value": 5}},
            {"input_tokens": 100_000, "clear_at_least": 5},
        ),
        ({"exclude_tools": ["a"]}, {"input_tokens": 100_000, "exclude_tools": {"a"}}),
        ({"clear_tool_inputs": True}, {"input_tokens": 100_000, "clear_tool_inputs": True}),
        ({"clear_tool_inputs": ["a", "b"]}, {"input_tokens": 100_000, "clear_tool_inputs": {"a", "b"}}),
    ],
)
def test_tool_uses_are_cleared_by_the_clients_rules(edit, options):
    wishes = converted({"type": USES, **edit}).request.context
    assert wishes == (ContextWish("clear_tool_uses", options),)


@pytest.mark.parametrize(
    ("keep", "wishes"),
    [
        ("all", ()),
        ({"type": "all"}, ()),
        (None, (ContextWish("clear_thinking", {}),)),
        ({"type": "thinking_turns", "value": 2}, (ContextWish("clear_thinking", {"keep": 2}),)),
    ],
)
def test_thoughts_are_kept_or_cleared(keep, wishes):
    assert converted({"type": THINKING, "keep": keep}).request.context == wishes


AT = "context_management.edits"


@pytest.mark.parametrize(
    ("edits", "param"),
    [
        (["clear"], f"{AT}[0]"),
        ([{}], f"{AT}[0].type"),
        ([{"type": "clear_everything"}], f"{AT}[0].type"),
        ([{"type": USES}, {"type": THINKING}], f"{AT}[1].type"),
        ([{"type": USES}, {"type": USES}], f"{AT}[1].type"),
        ([{"type": USES, "trigger": 5}], f"{AT}[0].trigger"),
        ([{"type": USES, "trigger": {"type": "turns", "value": 5}}], f"{AT}[0].trigger.type"),
        ([{"type": USES, "trigger": {"type": "tool_uses"}}], f"{AT}[0].trigger.value"),
        ([{"type": USES, "trigger": {"type": "tool_uses", "value": True}}], f"{AT}[0].trigger.value"),
        ([{"type": USES, "trigger": {"type": "tool_uses", "value": 0}}], f"{AT}[0].trigger.value"),
        ([{"type": USES, "keep": {"type": "input_tokens", "value": 5}}], f"{AT}[0].keep.type"),
        ([{"type": USES, "keep": {"type": "tool_uses", "value": -1}}], f"{AT}[0].keep.value"),
        (
            [{"type": USES, "clear_at_least": {"type": "tool_uses", "value": 1}}],
            f"{AT}[0].clear_at_least.type",
        ),
        ([{"type": USES, "exclude_tools": "a"}], f"{AT}[0].exclude_tools"),
        ([{"type": USES, "exclude_tools": ["a", 1]}], f"{AT}[0].exclude_tools[1]"),
        ([{"type": USES, "clear_tool_inputs": "a"}], f"{AT}[0].clear_tool_inputs"),
        ([{"type": THINKING, "keep": "some"}], f"{AT}[0].keep"),
        ([{"type": THINKING, "keep": 2}], f"{AT}[0].keep"),
        ([{"type": THINKING, "keep": {"type": "thinking_turns", "value": 0}}], f"{AT}[0].keep.value"),
        ([{"type": THINKING, "keep": {"type": "tool_uses", "value": 1}}], f"{AT}[0].keep.type"),
    ],
)
def test_what_is_wrong_is_named(edits, param):
    with pytest.raises(InvalidRequest) as refused:
        converted(*edits)
    assert refused.value.param == param


def test_a_summary_at_a_threshold_is_a_wish():
    asked = converted({"type": COMPACT, "trigger": {"type": "input_tokens", "value": 150_000}})
    assert asked.request.context == (ContextWish("compaction", {"threshold": 150_000}),)
    assert asked.losses == ()


def test_only_a_client_that_asks_is_told_what_was_applied():
    assert converted({"type": THINKING, "keep": "all"}).options.manages_context
    assert converted(context_management={}).options.manages_context
    assert not converted().options.manages_context


def test_the_answer_names_the_edits_as_the_vendor_does():
    taken = [
        StepTaken("clear_thinking", 2, 30, 1),
        StepTaken("clear_tool_uses", 5, 400, 2),
        StepTaken("old_results", 9, 9000, 2),
    ]
    assert applied_edits(taken)["applied_edits"] == [
        {"type": THINKING, "cleared_thinking_turns": 2, "cleared_input_tokens": 30},
        {"type": USES, "cleared_tool_uses": 5, "cleared_input_tokens": 400},
    ]


@pytest.mark.parametrize(("truncation", "steps"), [("auto", ["leading_turns"]), ("disabled", []), (None, [])])
def test_truncation_of_responses(truncation, steps):
    body = {"model": "m", "input": "Hi", "truncation": truncation}
    asked = openai_responses.PROTOCOL.to_gemini(body, Caller())
    assert [wish.step for wish in asked.request.context] == steps
    assert asked.options.echo["truncation"] == truncation or "disabled"


def test_every_wish_names_a_step():
    """Layers forbid that converters know the steps themselves."""
    steps = {kind.name: kind for kind in (*EDITS, *LADDER)}
    asked = [
        converted({"type": THINKING}, {"type": USES, "clear_tool_inputs": ["a"]}),
        openai_responses.PROTOCOL.to_gemini({"model": "m", "input": "Hi", "truncation": "auto"}, Caller()),
    ]
    for wish in (wish for each in asked for wish in each.request.context):
        assert steps[wish.step].wished(ContextSettings(), wish.options).name == wish.step


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize(
    ("options", "lost", "param"),
    [
        (None, False, None),
        ({}, False, None),
        ({"mode": "implicit", "ttl": "30m"}, False, None),
        ({"mode": "explicit"}, True, None),
        ({"mode": "never"}, False, "prompt_cache_options.mode"),
        ({"mode": 3}, False, "prompt_cache_options.mode"),
        ({"ttl": "24h"}, False, "prompt_cache_options.ttl"),
        ([], False, "prompt_cache_options"),
    ],
)
def test_options_of_the_prompt_cache(name, options, lost, param):
    protocol = next(each for each in PROTOCOLS if each.name == name)
    asked = {"messages": [{"role": "user", "content": "Hi"}], "input": "Hi"}
    body = {"model": "m", **asked, "prompt_cache_options": options}
    if param:
        with pytest.raises(InvalidRequest) as refused:
            protocol.to_gemini(body, Caller())
        assert refused.value.param == param
    else:
        losses = protocol.to_gemini(body, Caller()).losses
        assert [loss.partition(".")[2] for loss in losses] == ["prompt_cache_options"] * lost
