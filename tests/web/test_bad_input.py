"""Wrong input to endpoints beside the models' own answers is refused by its field, in the vendor's form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import requests
from gunicorn_bridge import Bridge, gunicorn_bridge
from vendor_schemas import document

Send = Callable[..., requests.Response]

DOCUMENT = document("openai")
HELLO = {"type": "message", "role": "user", "content": "Hello"}


class Endpoint(NamedTuple):
    path: str
    component: str  #: OpenAI's schema of the body
    good: dict[str, Any]


ENDPOINTS = (
    Endpoint("/embeddings", "CreateEmbeddingRequest", {"model": "text-embedding-3-small", "input": "Hi"}),
    Endpoint("/completions", "CreateCompletionRequest", {"model": "demo", "prompt": "Hi"}),
    Endpoint("/responses/input_tokens", "CreateResponse", {"model": "demo", "input": "Hi"}),
    Endpoint("/responses/compact", "CompactResponseMethodPublicBody", {"model": "demo", "input": "Hi"}),
    Endpoint("/conversations", "CreateConversationBody", {"items": [HELLO]}),
    Endpoint("/conversations/{conversation}", "UpdateConversationBody", {"metadata": {}}),
    Endpoint("/conversations/{conversation}/items", "", {"items": [HELLO]}),
)
EACH = pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
WRONG_VALUES: tuple[Any, ...] = (5, -1, 1.5, "x", "", True, [], [5], ["x", {}], {}, {"x": 5}, "x" * 5000)


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    with gunicorn_bridge(
        "tests.support.demo_without_pauses:app", BRIDGE_SERVER__MAX_BODY_MB="1", BRIDGE_UPSTREAM__ATTEMPTS="1"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def send(bridge: Bridge) -> Send:
    def send(method: str, path: str, key: str = "alice", **options: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {key}", **options.pop("headers", {})}
        return requests.request(method, f"{bridge.address}/v1{path}", headers=headers, timeout=60, **options)

    return send


@pytest.fixture(scope="module")
def ids(send: Send) -> dict[str, str]:
    """A conversation and a response of alice."""
    conversation = send("POST", "/conversations", json={"items": [HELLO]}).json()["id"]
    response = send("POST", "/responses", json={"model": "demo", "input": "Hi"}).json()["id"]
    return {"conversation": conversation, "response": response}


def refusal(answer: requests.Response, status: int = 400) -> dict[str, Any]:
    """The error. OpenAI's document describes its form; `request_id` is the bridge's own."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    error: dict[str, Any] = answer.json()["error"]
    vendors = {name: value for name, value in error.items() if name != "request_id"}
    assert DOCUMENT.findings("ErrorResponse", {"error": vendors}) == []
    return error


# --- bodies ------------------------------------------------------------------------------------------


@EACH
def test_the_body_without_a_mistake_is_accepted(send: Send, ids: dict[str, str], endpoint: Endpoint) -> None:
    answer = send("POST", endpoint.path.format(**ids), json=endpoint.good)
    assert answer.status_code == 200, answer.text


@EACH
@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'"Hi"', b"\xff\xfe", b'{"model": NaN}'], ids=lambda data: repr(data)
)
def test_a_body_that_is_no_json_object(
    send: Send, ids: dict[str, str], endpoint: Endpoint, data: bytes
) -> None:
    error = refusal(send("POST", endpoint.path.format(**ids), data=data))
    assert error["type"] == "invalid_request_error"
    assert "The body" in error["message"]


@EACH
def test_a_body_that_is_too_large(send: Send, ids: dict[str, str], endpoint: Endpoint) -> None:
    large = {**endpoint.good, "user": "x" * 1_100_000}
    error = refusal(send("POST", endpoint.path.format(**ids), json=large), 413)
    assert "larger than 1 MB" in error["message"]


@EACH
def test_a_compressed_body(send: Send, ids: dict[str, str], endpoint: Endpoint) -> None:
    headers = {"Content-Encoding": "gzip"}
    error = refusal(send("POST", endpoint.path.format(**ids), json=endpoint.good, headers=headers))
    assert "Content-Encoding" in error["message"]


@EACH
def test_a_body_of_deep_nesting(send: Send, ids: dict[str, str], endpoint: Endpoint) -> None:
    deep = b'{"input": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    refusal(send("POST", endpoint.path.format(**ids), data=deep))


@EACH
def test_a_field_that_is_missing(send: Send, ids: dict[str, str], endpoint: Endpoint) -> None:
    optional = {("/responses/input_tokens", each) for each in ("model", "input")}
    optional.add(("/conversations", "items"))
    for name in endpoint.good:
        rest = {each: value for each, value in endpoint.good.items() if each != name}
        answer = send("POST", endpoint.path.format(**ids), json=rest)
        if (endpoint.path, name) in optional:
            assert answer.status_code == 200, answer.text
        else:
            assert refusal(answer)["param"] == name


@EACH
def test_each_documented_field_with_a_wrong_value(
    send: Send, ids: dict[str, str], endpoint: Endpoint
) -> None:
    """Each value is accepted or refused by the name of its field; a number in place of a text or a list never
    passes."""
    reference = {"$ref": f"#/components/schemas/{endpoint.component}"}
    documented = DOCUMENT.properties(reference) if endpoint.component else {}
    for name in {**endpoint.good, **documented}:
        for wrong in WRONG_VALUES:
            answer = send("POST", endpoint.path.format(**ids), json={**endpoint.good, name: wrong})
            if answer.status_code != 200:
                error = refusal(answer, 404 if answer.status_code == 404 else 400)
                place = error["param"] or ""
                assert place.partition("[")[0].partition(".")[0] == name, (name, wrong, answer.text)
            else:
                assert name not in endpoint.good or not isinstance(wrong, int | float), (name, wrong)


# --- ids ---------------------------------------------------------------------------------------------

#: Requests that name a conversation or a response, and the status for one that the caller does not have.
NAMING: tuple[tuple[str, str, Any, int], ...] = (
    ("POST", "/responses/input_tokens", {"previous_response_id": "{response}"}, 400),
    ("POST", "/responses/input_tokens", {"conversation": "{conversation}"}, 404),
    ("POST", "/responses/compact", {"previous_response_id": "{response}"}, 400),
    ("POST", "/responses", {"previous_response_id": "{response}", "input": "Hi"}, 400),
    ("POST", "/responses", {"conversation": "{conversation}", "input": "Hi"}, 404),
    ("GET", "/conversations/{conversation}", None, 404),
    ("POST", "/conversations/{conversation}", {"metadata": {}}, 404),
    ("GET", "/conversations/{conversation}/items", None, 404),
    ("POST", "/conversations/{conversation}/items", {"items": [HELLO]}, 404),
    ("GET", "/conversations/{conversation}/items/msg_1", None, 404),
    ("DELETE", "/conversations/{conversation}/items/msg_1", None, 404),
    ("DELETE", "/conversations/{conversation}", None, 404),
    ("GET", "/responses/{response}", None, 404),
    ("GET", "/responses/{response}?stream=true", None, 404),
    ("GET", "/responses/{response}/input_items", None, 404),
    ("POST", "/responses/{response}/cancel", None, 404),
    ("DELETE", "/responses/{response}", None, 404),
)
NOBODYS = ("unknown", "x" * 3000, "%00", "..", "ключ", "a b", "'; DROP TABLE items; --")


@pytest.mark.parametrize(("method", "path", "body", "status"), NAMING, ids=lambda value: str(value)[:60])
def test_an_id_that_the_caller_does_not_have(
    send: Send, ids: dict[str, str], method: str, path: str, body: Any, status: int
) -> None:
    """An id of another owner is refused in the words for an unknown id."""

    def asked(key: str, named: dict[str, str]) -> requests.Response:
        filled = body and {name: _filled(value, named) for name, value in body.items()}
        model = {"model": "demo"} if path in ("/responses", *(each.path for each in ENDPOINTS[2:4])) else {}
        json = None if body is None else {**model, **filled}
        return send(method, path.format(**named), key, json=json)

    words = {
        refusal(asked(key, named), status)["message"]
        .replace(named["response"], "")
        .replace(named["conversation"], "")
        for key, named in (
            ("mallory", ids),
            ("alice", {"response": "resp_nobodys", "conversation": "conv_nobodys"}),
        )
    }
    assert len(words) == 1, words
    for odd in NOBODYS if body else ():
        assert asked("alice", dict.fromkeys(ids, odd)).status_code in (400, 404)


def _filled(value: Any, named: dict[str, str]) -> Any:
    return value.format(**named) if isinstance(value, str) else value


def test_nothing_was_changed_by_strangers(send: Send, ids: dict[str, str]) -> None:
    assert send("GET", f"/conversations/{ids['conversation']}/items").json()["data"]
    assert send("GET", f"/responses/{ids['response']}").json()["status"] == "completed"


# --- Interactions ------------------------------------------------------------------------------------

INTERACTIONS = "/interactions"
#: For each field values that are not accepted.
WRONG_INTERACTIONS: dict[str, tuple[Any, ...]] = {
    "model": (5, True, [], {}, "", "x" * 5000),
    "input": (5, 1.5, True, "", [], {}, [5], [{}], {"type": "unknown"}),
    "stream": (5, "x", [], {}),
    "store": (5, "x", [], {}),
    "background": (5, "x", [], {}),
    "system_instruction": (5, True, [], {}),
    "tools": (5, "x", True, {}, [5], [{}], [{"type": "unknown"}]),
    "generation_config": (5, "x", True, []),
    "previous_interaction_id": (5, True, [], {}, "", "x" * 5000),
    "response_modalities": (5, "x", True, {}),
}


def google_refusal(answer: requests.Response, status: int = 400) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == status
    return error


def google_field(error: dict[str, Any]) -> str:
    fields = [each["field"] for detail in error["details"] for each in detail.get("fieldViolations", ())]
    assert len(fields) == 1, error
    return str(fields[0])


@pytest.mark.parametrize("field", WRONG_INTERACTIONS)
def test_each_field_of_an_interaction_with_a_wrong_value(send: Send, field: str) -> None:
    for wrong in WRONG_INTERACTIONS[field]:
        answer = send("POST", INTERACTIONS, json={"model": "demo", "input": "Hi", field: wrong})
        place = google_field(google_refusal(answer))
        assert place.partition("[")[0].partition(".")[0] == field, (wrong, answer.text)


def test_bodies_of_interactions_that_are_no_good(send: Send) -> None:
    for data in (b"", b"{", b"[]", b"null", b"\xff", b'{"input": ' + b"[" * 5000 + b"]" * 5000 + b"}"):
        google_refusal(send("POST", INTERACTIONS, data=data))
    for missing in ("model", "input"):
        rest = {name: value for name, value in (("model", "demo"), ("input", "Hi")) if name != missing}
        assert google_field(google_refusal(send("POST", INTERACTIONS, json=rest))) == missing
    large = {"model": "demo", "input": "x" * 1_100_000}
    assert "larger than 1 MB" in google_refusal(send("POST", INTERACTIONS, json=large))["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "", 404), ("GET", "?stream=true", 404), ("POST", "/cancel", 404), ("DELETE", "", 404)],
)
def test_an_interaction_that_the_caller_does_not_have(
    send: Send, method: str, path: str, status: int
) -> None:
    """An interaction of another owner is refused in the words for an unknown one."""
    own = send("POST", INTERACTIONS, json={"model": "demo", "input": "Hi"}).json()["id"]
    words = {
        google_refusal(send(method, f"{INTERACTIONS}/{named}{path}", key), status)["message"].replace(
            named, ""
        )
        for key, named in (("mallory", own), ("alice", "v1_nobodys"))
    }
    assert len(words) == 1, words
    for odd in ("unknown", "x" * 3000, "ключ", "a b"):
        google_refusal(send(method, f"{INTERACTIONS}/{odd}{path}"), status)
    assert send("GET", f"{INTERACTIONS}/{own}").json()["status"] == "completed"


def test_an_interaction_continues_only_what_its_caller_has(send: Send) -> None:
    own = send("POST", INTERACTIONS, json={"model": "demo", "input": "Hi"}).json()["id"]
    body = {"model": "demo", "input": "Hi"}
    refused = [
        google_refusal(send("POST", INTERACTIONS, key, json={**body, "previous_interaction_id": named}), 404)
        for key, named in (("mallory", own), ("alice", "v1_nobodys"))
    ]
    assert len({error["message"].replace(own, "").replace("v1_nobodys", "") for error in refused}) == 1


# --- queries of lists --------------------------------------------------------------------------------

WRONG_LIMITS = ("0", "-1", "many", "1.5", "", "1" * 300, "٣", "+1", "1e1")


@pytest.mark.parametrize("path", ["/conversations/{conversation}/items", "/responses/{response}/input_items"])
def test_wrong_pages_of_items(send: Send, ids: dict[str, str], path: str) -> None:
    for limit in (*WRONG_LIMITS, "101"):
        answer = send("GET", path.format(**ids), params={"limit": limit})
        assert refusal(answer)["param"] == "limit"
    for name, wrong in (("after", "msg_unknown"), ("order", "newest"), ("order", "")):
        assert refusal(send("GET", path.format(**ids), params={name: wrong}))["param"] == name


def anthropic_refusal(answer: requests.Response, status: int = 400) -> str:
    assert answer.status_code == status, answer.text
    assert answer.json()["type"] == "error"
    message: str = answer.json()["error"]["message"]
    return message


def test_wrong_pages_of_anthropics_models(send: Send) -> None:
    headers = {"anthropic-version": "2023-06-01"}
    for limit in (*WRONG_LIMITS, "1001"):
        answer = send("GET", "/models", params={"limit": limit}, headers=headers)
        assert anthropic_refusal(answer).startswith("limit: ")
    for cursor in ("after_id", "before_id"):
        for odd in NOBODYS:
            answer = send("GET", "/models", params={cursor: odd}, headers=headers)
            assert anthropic_refusal(answer).startswith(f"{cursor}: ")
    for odd in ("unknown", "x" * 3000, "ключ"):
        anthropic_refusal(send("GET", f"/models/{odd}", headers=headers), 404)
    for method in ("POST", "DELETE", "PUT"):
        assert send(method, "/models", headers=headers).status_code in (404, 405)


# --- what takes no input -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_pages_ignore_queries_and_bodies_and_refuse_other_methods(bridge: Bridge, path: str) -> None:
    url = bridge.address + path
    plain = requests.get(url, timeout=30)
    odd = requests.get(url, params={"x": "<script>"}, data=b"x" * 1000, timeout=30)
    assert (odd.status_code, odd.content) == (200, plain.content)
    assert requests.head(url, timeout=30).status_code == 200
    for method in ("POST", "PUT", "DELETE"):
        answer = requests.request(method, url, timeout=30)
        assert (answer.status_code, "GET" in answer.headers["Allow"]) == (405, True)
    for typo in ("/", "/x", "x"):
        assert requests.get(url + typo, timeout=30).status_code == 404
