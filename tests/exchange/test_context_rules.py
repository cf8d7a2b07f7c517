"""Whose conversations are shortened, by which steps, and when the upstream is asked; for any history."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from gemini_rules import broken_rules, calls, responses
from hypothesis import given
from hypothesis import strategies as st

from bridge.context import LADDER
from bridge.context.estimate import request_tokens
from bridge.errors import ContextOverflow, UpstreamError
from bridge.exchange.context_fitting import NEAR_THE_EDGE, UNCOUNTED, ContextFitting
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.types import (
    MODEL,
    USER,
    Content,
    ContextWish,
    FunctionCall,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    Part,
)
from bridge.gemini.wire import request_to_json
from bridge.observe.record import Record
from bridge.settings.context import ContextSettings
from tests.context.histories import conversations, requests_of, text

LIMITS = st.sampled_from((2048, 4096, 8192, 16384))
#: Characters of JSON for each token: the estimate is right, too low and too high.
RATIOS = st.sampled_from((2.5, 4.0, 6.0))
STEPS = [kind.name for kind in LADDER]


class Model:
    """A model that counts in its own way."""

    def __init__(self, ratio: float = 4.0, *, down: bool = False) -> None:
        self.ratio, self.down = ratio, down
        self.times_asked = 0

    def tokens(self, request: GenerateRequest) -> int:
        return round(len(str(request_to_json(request)["contents"])) / self.ratio)

    def count(self, request: GenerateRequest) -> int:
        self.times_asked += 1
        if self.down:
            raise UpstreamError("down")
        return self.tokens(request)


def asked(contents: Sequence[Content], *wishes: ContextWish) -> GenerateRequest:
    return GenerateRequest("m", tuple(contents), context=wishes)


def fitted(
    request: GenerateRequest,
    limit: int = 4096,
    model: Model | None = None,
    client: str | None = None,
    record: Record | None = None,
    **settings: Any,
) -> GenerateRequest:
    fitting = ContextFitting(ContextSettings(**{"compress": "all", "editor_context": "off", **settings}))
    record = record or Record("id", "POST", "/")
    record.client = client
    edited = fitting.edited(request, "m", record)
    capabilities = ModelCapabilities(window=limit)
    return fitting.fitted(edited, "m", capabilities, (model or Model()).count, record)


def fitted_or_none(
    request: GenerateRequest, limit: int, model: Model | None = None
) -> GenerateRequest | None:
    """None: it cannot be made to fit."""
    try:
        return fitted(request, limit, model)
    except ContextOverflow:
        return None


# --- any history -------------------------------------------------------------------------------------


@given(conversations(), LIMITS, RATIOS)
def test_any_history_ends_legally_within_the_window_or_with_the_error(contents, limit, ratio):
    model = Model(ratio)
    sent = fitted_or_none(asked(contents), limit, model)
    if sent is None:
        assert model.tokens(asked(contents)) > limit
        return
    assert model.tokens(sent) <= limit
    assert broken_rules(sent.contents, prefill=False) == []
    for turn, following in pairwise(sent.contents):
        assert [call.id for call in calls(turn)] == [each.id for each in responses(following)]


@given(conversations(), LIMITS, RATIOS)
def test_a_fitted_history_is_left_alone(contents, limit, ratio):
    once = fitted_or_none(asked(contents), limit, Model(ratio))
    assert once is None or fitted(once, limit, Model(ratio)) is once


@given(conversations(), LIMITS, st.data())
def test_a_changed_past_is_shortened_as_it_comes(contents, limit, data):
    past = data.draw(st.integers(0, len(contents) - 1))
    changed = list(contents)
    changed[past] = Content(changed[past].role, (*changed[past].parts, Part("Another word.")))
    for history in (contents, changed):
        if (sent := fitted_or_none(asked(history), limit)) is not None:
            assert Model().tokens(sent) <= limit
            assert broken_rules(sent.contents, prefill=False) == []


@given(conversations(), LIMITS)
def test_while_the_model_cannot_count_the_history_is_legal_too(contents, limit):
    record = Record("id", "POST", "/")
    sent = fitted(asked(contents), limit, Model(down=True), record=record)
    assert broken_rules(sent.contents, prefill=False) == []
    if sent.contents != contents:
        assert record.notes[UNCOUNTED] == 1


@pytest.mark.parametrize("count", [10, 60])
def test_a_history_of_nothing_but_results_is_one_turn(count):
    """Calls are made up for the results. All results are the newest turn, which stays."""
    results = [FunctionResponse("run", {"result": text(900)}, f"c{number}") for number in range(count)]
    request = asked([Content(USER, (Part(result),)) for result in results])
    if count == 10:
        assert fitted(request) is request
    else:
        with pytest.raises(ContextOverflow):
            fitted(request)


def test_one_giant_turn_is_the_error_and_not_a_shorter_turn():
    with pytest.raises(ContextOverflow):
        fitted(asked([Content(USER, (Part("a"),)), Content(MODEL, (Part("b"),)), giant()]))


def giant() -> Content:
    return Content(USER, (Part(text(60_000)),))


# --- who, and which steps ----------------------------------------------------------------------------


def history(pictures: tuple[Part, ...] = (Part(InlineData("image/png", "A" * 800)),)) -> list[Content]:
    """Each step of the ladder has something to do here."""
    turns: list[Content] = []
    for number in range(12):
        call = FunctionCall("run", {}, f"c{number}")
        result = FunctionResponse("run", {"result": text(900)}, f"c{number}")
        turns += [
            Content(USER, (Part(text(400)), *pictures)),
            Content(MODEL, (Part(call),)),
            Content(USER, (Part(result),)),
            Content(MODEL, (Part(text(300), thought=True), Part(text(400)))),
        ]
    return [*turns, Content(USER, (Part("And now?"),))]


#: Nothing writes summaries here.
@pytest.mark.parametrize("step", [step for step in STEPS if step != "summary"])
def test_each_step_has_its_own_switch(step):
    record = Record("id", "POST", "/")
    small = {"protected_tokens": 0, "least_saved": 0}
    fitted(asked(history()), 2048, record=record, **small)
    assert step in [each.name for each in record.context_steps]
    without = Record("id", "POST", "/")
    try:
        fitted(asked(history()), 2048, record=without, **small, **{step: False})
    except ContextOverflow:
        assert step == "leading_turns"
    assert step not in [each.name for each in without.context_steps]


def test_what_was_done_is_in_the_record_and_in_the_notes():
    record = Record("id", "POST", "/")
    before = asked(history(pictures=()))
    sent = fitted(before, record=record)
    assert {f"context.{step.name}" for step in record.context_steps} == set(record.notes)
    saved = sum(step.saved for step in record.context_steps)
    assert saved == pytest.approx(Model().tokens(before) - Model().tokens(sent), rel=0.3)


@pytest.mark.parametrize(
    ("compress", "client", "shortens"),
    [
        ("off", "aider", False),
        ("clients", "aider", True),
        ("clients", "Aider", True),
        ("clients", "my-agent-2", True),
        ("clients", "claude-cli", False),
        ("clients", None, False),
        ("all", None, True),
    ],
)
def test_the_operator_says_whose_conversations_are_shortened(compress, client, shortens):
    request = asked(history())
    sent = fitted(request, compress=compress, clients=("aider", "my-agent*"), client=client)
    assert (sent is not request) == shortens


def test_a_wish_needs_no_setting_and_runs_only_its_step():
    record = Record("id", "POST", "/")
    fitted(asked(history(), ContextWish("leading_turns")), compress="off", record=record)
    assert [step.name for step in record.context_steps] == ["leading_turns"]


def test_the_second_model_that_is_asked_begins_anew():
    """A fallback with a larger window gets the whole conversation, and the record says so."""
    fitting = ContextFitting(ContextSettings(compress="all", editor_context="off"))
    request, record = asked(history()), Record("id", "POST", "/")
    small, large = ModelCapabilities(window=4096), ModelCapabilities(window=1_000_000)
    assert fitting.fitted(request, "small", small, Model().count, record) is not request
    assert record.context_steps
    assert fitting.fitted(request, "large", large, Model().count, record) is request
    assert record.context_steps == ()


# --- when the model is asked -------------------------------------------------------------------------


def test_the_model_counts_only_near_the_edge():
    model, fitting = Model(), ContextFitting(ContextSettings(compress="all", editor_context="off"))
    conversation = tuple(turn for _ in range(4) for turn in history()[:-1])
    near = False
    for contents in requests_of((*conversation, Content(USER, (Part("Go."),)))):
        request, record = asked(contents), Record("id", "POST", "/")
        times = model.times_asked
        fitting.fitted(request, "m", ModelCapabilities(window=20_000), model.count, record)
        fitting.scales.learn("m", request_tokens(request), model.tokens(request))
        near = near or model.tokens(request) > 0.8 * NEAR_THE_EDGE * 20_000
        assert near or model.times_asked == times
    assert model.times_asked > 0
