"""What Claude Code and Anthropic's SDKs expect of a gateway, as docs/CLAUDE-CODE.md lists it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
import requests
from anthropic import Anthropic
from gunicorn_bridge import Bridge, gunicorn_bridge
from scripted_gemini import ScriptedGemini

OLD, NEW = "2023-06-01", "2026-10-21"
HELLO = {"role": "user", "content": "Hello"}
ASK: dict[str, Any] = {"model": "claude-opus-4-8", "max_tokens": 100, "messages": [HELLO]}
CITED = {"type": "text", "text": "Hello", "citations": [{"type": "char_location"}]}
DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}


def post(
    bridge: Bridge,
    body: dict[str, Any],
    version: str | None = OLD,
    path: str = "/v1/messages",
    **headers: str,
) -> requests.Response:
    named = {"anthropic-version": version} if version is not None else {}
    return requests.post(f"{bridge.address}{path}", json=body, headers={**named, **headers}, timeout=30)


def refusal(answer: requests.Response) -> str:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert body["request_id"] == answer.headers["x-request-id"]
    return str(body["error"]["message"])


# --- versions ----------------------------------------------------------------------------------------

SAMPLING = [("temperature", 1.0), ("top_p", 0.5), ("top_k", 3)]


@pytest.mark.parametrize(("name", "value"), SAMPLING)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_sampling_parameters_are_refused_since_the_version_that_removed_them(
    bridge: Bridge, gemini: ScriptedGemini, path: str, name: str, value: float
) -> None:
    asked = {**ASK, name: value}
    assert refusal(post(bridge, asked, NEW, path)) == f"{name}: Extra inputs are not permitted"
    assert not gemini.asked
    for version in (OLD, "2023-01-01", None):
        assert post(bridge, asked, version).status_code == 200


def test_the_old_version_still_carries_them_to_gemini(bridge: Bridge, gemini: ScriptedGemini) -> None:
    post(bridge, {**ASK, "temperature": 0.5, "top_p": 0.25}, OLD)
    assert gemini.asked[-1].body["generationConfig"]["temperature"] == 0.5
    assert gemini.asked[-1].body["generationConfig"]["topP"] == 0.25


def test_the_new_version_refuses_citations_in_user_turns(bridge: Bridge, gemini: ScriptedGemini) -> None:
    asked = {**ASK, "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, CITED]}]}
    assert refusal(post(bridge, asked, NEW)).startswith("messages[0].content[1].citations: ")
    assert not gemini.asked
    assert post(bridge, asked, OLD).status_code == 200
    unused = {**ASK, "messages": [{"role": "user", "content": [{**CITED, "citations": []}]}]}
    assert post(bridge, unused, NEW).status_code == 200


def test_the_new_version_refuses_documents_in_assistant_turns(bridge: Bridge, gemini: ScriptedGemini) -> None:
    said = {"role": "assistant", "content": [DOCUMENT]}
    message = refusal(post(bridge, {**ASK, "messages": [HELLO, said, HELLO]}, NEW))
    assert message == "messages[1].content[0]: document blocks are not permitted in assistant messages"
    assert not gemini.asked
    given = {"role": "user", "content": [DOCUMENT]}
    assert post(bridge, {**ASK, "messages": [given]}, NEW).status_code == 200


@pytest.mark.parametrize("version", ["latest", "2026-10-21x", "20261021", "2026-1-1"])
def test_an_invalid_version_is_refused_by_name(bridge: Bridge, version: str) -> None:
    assert refusal(post(bridge, ASK, version)) == f"anthropic-version: {version!r} is not a valid version"


@pytest.mark.parametrize(
    ("version", "takes_sampling"), [("2023-10-01", True), ("2026-10-20", True), ("2031-01-01", False)]
)
def test_an_unknown_version_follows_the_previous_versions_rules(
    bridge: Bridge, version: str, takes_sampling: bool
) -> None:
    answer = post(bridge, ASK, version)
    assert answer.status_code == 200
    line = bridge.request(request_id=answer.headers["request-id"])
    assert line["notes"]["messages.unknown_version"] == 1
    sampled = post(bridge, {**ASK, "temperature": 1}, version)
    assert sampled.status_code == (200 if takes_sampling else 400)


def test_the_sdk_works_with_the_new_version_and_a_bearer_key(bridge: Bridge, gemini: ScriptedGemini) -> None:
    sent: dict[str, str] = {}
    with Anthropic(base_url=bridge.address, api_key="client-key", max_retries=0) as client:
        raw = client.messages.with_raw_response.create(**ASK)
        sent.update(raw.http_request.headers)
        assert (sent["anthropic-version"], sent["authorization"]) == (NEW, "Bearer client-key")
        with pytest.raises(anthropic.BadRequestError, match="temperature: Extra inputs are not permitted"):
            client.messages.create(**ASK, extra_body={"temperature": 1.0})
        older = {"extra_headers": {"anthropic-version": OLD}, "extra_body": {"temperature": 1.0}}
        assert client.messages.create(**ASK, **older).content
    assert len(gemini.asked) == 2


# --- other requirements of a gateway -----------------------------------------------------------------


def test_unknown_headers_betas_queries_and_fields_are_ignored(bridge: Bridge, gemini: ScriptedGemini) -> None:
    headers = {
        "anthropic-beta": "request-tags-2026-08-21,never-heard-of-2031-01-01",
        "x-app": "cli",
        "x-stainless-retry-count": "0",
        "x-claude-code-agent-id": "a1",
        "x-claude-code-something-new": "?",
    }
    body = {**ASK, "tags": {"team": "blue"}, "diagnostics": {"wanted": True}, "speed": "fast"}
    assert post(bridge, body, OLD, "/v1/messages?beta=true", **headers).status_code == 200
    assert "blue" not in str(gemini.asked[-1].body)
    assert not [name for name in gemini.asked[-1].headers if name.startswith(("anthropic", "x-claude"))]


def test_unsupported_checks_are_refused_by_name(bridge: Bridge, gemini: ScriptedGemini) -> None:
    """Claude Code then retries without them, and makes the checks itself."""
    asked = {**ASK, "safeguards": {"tool_use": {"type": "enabled"}}}
    assert refusal(post(bridge, asked)).startswith("safeguards: ")
    assert not gemini.asked


@pytest.mark.parametrize("path", ["/", "/api/hello"])
def test_claude_codes_startup_probe_is_answered_at_once(bridge: Bridge, path: str) -> None:
    answer = requests.head(f"{bridge.address}{path}", timeout=5, allow_redirects=False)
    assert answer.status_code in (200, 404)
    assert not answer.content


@pytest.mark.parametrize("path", ["/.well-known/oauth-authorization-server", "/managed/settings"])
def test_gateway_login_routes_are_a_404(bridge: Bridge, path: str) -> None:
    answer = requests.get(f"{bridge.address}{path}", headers={"anthropic-version": OLD}, timeout=5)
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


# --- models ------------------------------------------------------------------------------------------

TWO = [
    {
        "name": f"models/{name}",
        "displayName": title,
        "inputTokenLimit": window,
        "outputTokenLimit": 65536,
        "supportedGenerationMethods": ["generateContent"],
    }
    for name, title, window in (
        ("gemini-3.1-pro-preview", "Gemini 3.1 Pro", 1048576),
        ("gemma-3-27b-it", "Gemma 3 27B", 131072),
    )
]


@pytest.fixture
def lister() -> Iterator[ScriptedGemini]:
    """A separate Gemini, because the shared bridge caches the other one's model list."""
    scripted = ScriptedGemini()
    scripted.will_list({"models": TWO})
    yield scripted
    scripted.close()


@pytest.fixture
def listing(lister: ScriptedGemini) -> Iterator[Bridge]:
    with gunicorn_bridge(GEMINI_API_KEY="any", GOOGLE_GEMINI_BASE_URL=lister.address) as running:
        yield running


def listed(bridge: Bridge, **query: str) -> dict[str, Any]:
    headers = {"anthropic-version": OLD}
    answer = requests.get(f"{bridge.address}/v1/models", params=query, headers=headers, timeout=10)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_the_model_picker_gets_names_that_it_shows(listing: Bridge) -> None:
    titles = {model["id"]: model["display_name"] for model in listed(listing, limit="1000")["data"]}
    assert titles["claude/gemini-3.1-pro-preview[1m]"] == "Gemini 3.1 Pro"
    assert titles["claude/gemma-3-27b-it"] == "Gemma 3 27B", "its window is not that wide"
    assert titles["claude-opus-4-8[1m]"] == "claude-opus-4-8[1m] (gemini-pro-latest)"
    assert titles["gemini-3.1-pro-preview"] == "Gemini 3.1 Pro"
    assert not {"claude/gpt-5", "claude/gpt-5[1m]", "claude/gemini-3.1-pro-preview"} & titles.keys()


def test_every_listed_model_can_be_retrieved_and_used(listing: Bridge, lister: ScriptedGemini) -> None:
    for model in listed(listing)["data"]:
        address = f"{listing.address}/v1/models/{model['id']}"
        assert requests.get(address, headers={"anthropic-version": OLD}, timeout=10).json() == model
    for name in ("claude/gemini-3.1-pro-preview[1m]", "claude/gemma-3-27b-it"):
        answer = post(listing, {**ASK, "model": name}).json()
        assert answer["model"] == name
        assert lister.asked[-1].path.partition(":")[0].endswith(name.partition("/")[2].removesuffix("[1m]"))


def test_the_pages_of_the_model_list_are_complete_and_ordered(listing: Bridge) -> None:
    everything = [model["id"] for model in listed(listing)["data"]]
    first = listed(listing, limit="2")
    assert [model["id"] for model in first["data"]] == everything[:2]
    assert (first["first_id"], first["last_id"], first["has_more"]) == (everything[0], everything[1], True)
    rest = listed(listing, after_id=first["last_id"])
    assert [model["id"] for model in rest["data"]] == everything[2:]
    assert not rest["has_more"]
    back = listed(listing, before_id=everything[3], limit="2")
    assert [model["id"] for model in back["data"]] == everything[1:3]
    assert back["has_more"]
    with Anthropic(base_url=listing.address, api_key="any") as client:
        assert [model.id for model in client.models.list(limit=3)] == everything
        assert client.models.retrieve("gemini-3.1-pro-preview").max_input_tokens == 1048576


@pytest.mark.parametrize(
    "query",
    [{"limit": "0"}, {"limit": "1001"}, {"limit": "many"}, {"after_id": "nobody"}, {"before_id": "x"}],
)
def test_an_invalid_page_parameter_is_refused_by_name(bridge: Bridge, query: dict[str, str]) -> None:
    headers = {"anthropic-version": OLD}
    answer = requests.get(f"{bridge.address}/v1/models", params=query, headers=headers, timeout=10)
    assert refusal(answer).startswith(f"{next(iter(query))}: ")
