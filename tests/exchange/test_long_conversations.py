"""Conversations of 400 requests in every protocol, with and without shortening, under real gunicorn.

`make context-plot` writes the measured tokens to docs/tokens-per-request.svg.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from counting_gemini import MODEL, config_with_window
from gemini_rules import broken_rules
from growing_clients import Chained, Chat, ClaudeCode, Codex, GeminiCli, GrowingClient, Interactions
from gunicorn_bridge import ROOT, gunicorn_bridge
from long_conversations import REQUESTS, Conversation, WorkingGemini, converse
from prefixes import written
from scripted_gemini import ScriptedGemini
from token_plot import Series, drawn
from transcripts import ACCEPT

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


@pytest.fixture(scope="module")
def conversations(
    scripted: ScriptedGemini, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Conversation]:
    """Each conversation, by the setting and the client."""
    config, found = config_with_window(tmp_path_factory.mktemp("config"), WINDOW), {}
    for compress in ("off", "all"):
        with gunicorn_bridge(
            GEMINI_API_KEY="a-key",
            GOOGLE_GEMINI_BASE_URL=scripted.address,
            BRIDGE_CONFIG_DIR=str(config),
            BRIDGE_UPSTREAM__ATTEMPTS="1",
            BRIDGE_CONTEXT__COMPRESS=compress,
            BRIDGE_CONTEXT__SUMMARY="false",  # when a summary is ready depends on the machine
        ) as bridge:
            for name, kind in CLIENTS.items():
                client = kind(bridge.address, MODEL)
                found[compress, name] = converse(client, WorkingGemini(scripted, WINDOW))
    return found


@pytest.mark.parametrize("name", CLIENTS)
def test_a_shortened_conversation_goes_on_for_400_requests(conversations, name):
    conversation = conversations["all", name]
    assert conversation.refusal == ""
    assert len(conversation.tokens) == REQUESTS
    assert max(conversation.tokens) <= WINDOW
    for body in conversation.bodies[::10]:
        assert broken_rules(request_from_json(MODEL, body).contents, prefill=False) == []
    assert _share_that_begins_as_the_one_before(conversation) > 0.75


@pytest.mark.parametrize("name", CLIENTS)
def test_without_shortening_the_client_gets_the_error_at_the_window(conversations, name):
    conversation = conversations["off", name]
    assert 50 < len(conversation.tokens) < 100
    assert "long" in conversation.refusal or "maximum" in conversation.refusal


def _share_that_begins_as_the_one_before(conversation: Conversation) -> float:
    contents = [body["contents"] for body in conversation.bodies]
    same = [written(later[: len(earlier)]) == written(earlier) for earlier, later in pairwise(contents)]
    return sum(same) / len(same)


def test_the_plot_in_the_documents_shows_these_conversations(conversations):
    series = {
        name: Series(conversations["off", name].tokens, conversations["all", name].tokens) for name in CLIENTS
    }
    plot = drawn(series, WINDOW, REQUESTS)
    if ACCEPT:
        PLOT.write_text(plot)
    assert plot == PLOT.read_text(), "run `make context-plot` and look at the difference"
