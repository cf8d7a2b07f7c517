"""Conversations of 400 requests in every protocol, with and without shortening, under real gunicorn.

`make context-plot` writes the measured tokens to docs/tokens-per-request.svg.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise

import pytest
from counting_gemini import MODEL, config_with_window
from gemini_rules import broken_rules
from growing_clients import Chained, Chat, ClaudeCode, Codex, GeminiCli, GrowingClient, Interactions
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge
from long_conversations import REQUESTS, Conversation, WorkingGemini, converse
from prefixes import written
from scripted_gemini import ScriptedGemini
from token_plot import Series, drawn

from bridge.gemini.wire import request_from_json

WINDOW = 20_000
PLOT = ROOT / "docs" / "tokens-per-request.svg"
CLIENTS: dict[str, type[GrowingClient]] = {
    "Chat Completions": Chat,
    "Responses": Codex,
    "Responses, stored": Chained,
    "Messages": ClaudeCode,
    "Gemini": GeminiCli,
    "Interactions": Interactions,
}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedGemini]:
    gemini = ScriptedGemini()
    yield gemini
    gemini.close()


@pytest.fixture(scope="module", params=["off", "all"])
def bridge(
    request: pytest.FixtureRequest, scripted: ScriptedGemini, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Bridge]]:
    with gunicorn_bridge(
        GEMINI_API_KEY="a-key",
        GOOGLE_GEMINI_BASE_URL=scripted.address,
        BRIDGE_CONFIG_DIR=str(config_with_window(tmp_path_factory.mktemp("config"), WINDOW)),
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        BRIDGE_CONTEXT__COMPRESS=request.param,
    ) as running:
        yield request.param, running


@pytest.fixture(scope="module")
def measured() -> dict[tuple[str, str], list[int]]:
    """The tokens of each request, by the setting and the client."""
    return {}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_conversation_of_400_requests(bridge, scripted, measured, name):
    compress, running = bridge
    conversation = converse(CLIENTS[name](running.address, MODEL), WorkingGemini(scripted, WINDOW))
    measured[compress, name] = conversation.tokens
    assert max(conversation.tokens) <= WINDOW
    for body in conversation.bodies[::10]:
        assert broken_rules(request_from_json(MODEL, body).contents, prefill=False) == []
    if compress == "off":
        assert len(conversation.tokens) < REQUESTS / 2
        assert "long" in conversation.refusal or "maximum" in conversation.refusal
    else:
        assert conversation.refusal == ""
        assert len(conversation.tokens) == REQUESTS
        assert _share_that_begins_as_the_one_before(conversation) > 0.75


def _share_that_begins_as_the_one_before(conversation: Conversation) -> float:
    contents = [body["contents"] for body in conversation.bodies]
    same = [written(later[: len(earlier)]) == written(earlier) for earlier, later in pairwise(contents)]
    return sum(same) / len(same)


def test_the_plot_in_the_documents_shows_these_conversations(measured):
    series = {name: Series(measured["off", name], measured["all", name]) for name in CLIENTS}
    plot = drawn(series, WINDOW, REQUESTS)
    if os.environ.get("BRIDGE_TEST_ACCEPT"):
        PLOT.write_text(plot)
    assert plot == PLOT.read_text(), "run `make context-plot` and look at the difference"
