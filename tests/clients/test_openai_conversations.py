"""Conversations, and token counts of Responses, with the real `openai` package on two workers."""

from __future__ import annotations

from typing import Any

import openai
import pytest
import requests
from openai import OpenAI
from scripted_gemini import CUT, Reply, call_chunk, sse, text_chunk
from vendor_schemas import document
from waiting import eventually

from bridge.settings import load

MODEL = "gemini-3.1-pro-preview"
DEFAULT = load(environ={}).models.default
HELLO = {"type": "message", "role": "user", "content": "Hello"}
TOOLS = [{"type": "function", "name": "f", "strict": False, "parameters": {"type": "object"}}]


@pytest.fixture
def client(bridge):
    with OpenAI(base_url=f"{bridge.address}/v1", api_key="alice", max_retries=0) as sdk:
        yield sdk


@pytest.fixture
def stranger(client):
    return client.with_options(api_key="mallory")


@pytest.fixture
def send(bridge):
    def send(method: str, path: str, key: str = "alice", **options: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {key}"}
        return requests.request(method, f"{bridge.address}/v1{path}", headers=headers, timeout=30, **options)

    return send


def said(asked) -> list[str]:
    return [part["text"] for content in asked.body["contents"] for part in content["parts"] if "text" in part]


def texts(client: OpenAI, conversation_id: str) -> list[str]:
    """The texts of a conversation's messages, the oldest first."""
    items = client.conversations.items.list(conversation_id, order="asc")
    return [part.text for item in items if item.type == "message" for part in item.content]


# --- the resource ------------------------------------------------------------------------------------


def test_a_conversation_is_created_shown_changed_and_deleted(client):
    made = client.conversations.create(metadata={"topic": "demo"}, items=[HELLO])
    assert made.id.startswith("conv_")
    for _ in range(4):  # on either worker
        assert client.conversations.retrieve(made.id) == made
    changed = client.conversations.update(made.id, metadata={"topic": "other"})
    assert (changed.id, changed.metadata) == (made.id, {"topic": "other"})
    assert client.conversations.delete(made.id).deleted is True
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.list(made.id)


def test_items_are_added_listed_shown_and_deleted(client):
    made = client.conversations.create()
    messages = [{"role": "user", "content": f"Number {number}"} for number in range(5)]
    added = client.conversations.items.create(made.id, items=messages)
    assert [item.content[0].text for item in added.data] == [f"Number {number}" for number in range(5)]
    page = client.conversations.items.list(made.id, limit=2)
    assert [item.content[0].text for item in page.data] == ["Number 4", "Number 3"]
    assert page.has_more
    assert texts(client, made.id) == [f"Number {number}" for number in range(5)]
    after = client.conversations.items.list(made.id, order="asc", after=added.data[3].id)
    assert [item.id for item in after.data] == [added.data[4].id]
    one = added.data[2]
    assert client.conversations.items.retrieve(one.id, conversation_id=made.id) == one
    assert client.conversations.items.delete(one.id, conversation_id=made.id).id == made.id
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(one.id, conversation_id=made.id)
    assert "Number 2" not in texts(client, made.id)


def test_bodies_are_as_the_vendors_document_says(send, gemini):
    gemini.will_say(Reply([b'{"totalTokens": 31}']))
    schemas = document("openai")

    def check(component: str, answer: requests.Response) -> Any:
        assert answer.status_code == 200, answer.text
        assert schemas.findings(component, answer.json()) == []
        return answer.json()

    items = [
        HELLO,
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
        {"type": "function_call", "name": "f", "call_id": "c1", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
    ]
    made = check("ConversationResource", send("POST", "/conversations", json={"metadata": {"a": "b"}}))
    path = f"/conversations/{made['id']}"
    check("ConversationItemList", send("GET", f"{path}/items"))
    added = check("ConversationItemList", send("POST", f"{path}/items", json={"items": items}))
    check("ConversationItemList", send("GET", f"{path}/items"))
    for item in added["data"]:
        check("ConversationItem", send("GET", f"{path}/items/{item['id']}"))
    check("ConversationResource", send("GET", path))
    check("ConversationResource", send("POST", path, json={"metadata": {}}))
    check("ConversationResource", send("DELETE", f"{path}/items/{added['data'][0]['id']}"))
    check("DeletedConversationResource", send("DELETE", path))
    counted = send("POST", "/responses/input_tokens", json={"model": MODEL, "input": "Hello"})
    check("TokenCountsResource", counted)


WRONG = [
    ({"metadata": "text"}, "metadata"),
    ({"metadata": []}, "metadata"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"metadata": {"a": "x" * 513}}, "metadata.a"),
    ({"metadata": {"x" * 65: "a"}}, "metadata"),
    ({"metadata": {str(number): "a" for number in range(17)}}, "metadata"),
    ({"items": "text"}, "items"),
    ({"items": {}}, "items"),
    ({"items": ["text"]}, "items[0]"),
    ({"items": [HELLO] * 21}, "items"),
    ({"items": [HELLO, {"role": "nobody", "content": "Hi"}]}, "items[1].role"),
    ({"items": [{"role": "user", "content": 5}]}, "items[0].content"),
    ({"items": [{"type": "item_reference", "id": "msg_1"}]}, "items[0].type"),
    ({"items": [{"type": "function_call", "name": "f"}]}, "items[0].call_id"),
]


@pytest.mark.parametrize(("body", "param"), WRONG)
def test_wrong_fields_are_refused_by_name(send, body, param):
    refused = send("POST", "/conversations", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param), refused.text


def test_bad_bodies_and_missing_fields_are_refused(send):
    made = send("POST", "/conversations", json={}).json()
    path = f"/conversations/{made['id']}"
    assert send("POST", "/conversations", data=b"{").status_code == 400
    assert send("POST", "/conversations", data=b"[]").status_code == 400
    for wrong in ({}, {"items": []}, {"items": None}, {"items": [HELLO] * 21}):
        refused = send("POST", f"{path}/items", json=wrong)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "items")
    for wrong in ({}, {"metadata": "x"}):
        refused = send("POST", path, json=wrong)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "metadata")
    for limit in ("0", "101", "many"):
        refused = send("GET", f"{path}/items", params={"limit": limit})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "limit")
    refused = send("GET", f"{path}/items", params={"after": "msg_unknown"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "after")


def test_another_key_and_unknown_ids_are_not_found(client, send):
    made = client.conversations.create(items=[HELLO])
    item = client.conversations.items.list(made.id).data[0]
    calls = [
        ("GET", "", None),
        ("POST", "", {"metadata": {}}),
        ("DELETE", "", None),
        ("GET", "/items", None),
        ("POST", "/items", {"items": [HELLO]}),
        ("GET", f"/items/{item.id}", None),
        ("DELETE", f"/items/{item.id}", None),
    ]
    for key, conversation_id in (("mallory", made.id), ("alice", "conv_unknown")):
        for method, path, body in calls:
            answer = send(method, f"/conversations/{conversation_id}{path}", key, json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found"), path
        body = {"model": MODEL, "input": "Hi", "conversation": conversation_id}
        for path in ("/responses", "/responses/input_tokens"):
            answer = send("POST", path, key, json=body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (404, "conversation")
    assert texts(client, made.id) == ["Hello"]


# --- responses in a conversation ---------------------------------------------------------------------


def test_responses_continue_a_conversation_and_add_to_it(client, gemini):
    gemini.will_say(sse(text_chunk("I am Gemini.", "STOP")), sse(text_chunk("You said hello.", "STOP")))
    talk = client.conversations.create(items=[{"role": "user", "content": "Call me Al."}])
    first = client.responses.create(model=MODEL, input="Hello", conversation=talk.id)
    assert first.conversation.id == talk.id
    second = client.responses.create(model=MODEL, input="What did I say?", conversation={"id": talk.id})
    assert client.responses.retrieve(second.id).conversation.id == talk.id
    assert said(gemini.asked[-1]) == ["Call me Al.", "Hello", "I am Gemini.", "What did I say?"]
    assert texts(client, talk.id) == [*said(gemini.asked[-1]), "You said hello."]
    given = client.responses.input_items.list(first.id).data[0]
    assert client.conversations.items.retrieve(given.id, conversation_id=talk.id).id == given.id


@pytest.mark.parametrize("options", [{"stream": True}, {"stream": True, "background": True}])
def test_a_streamed_answer_is_added_before_its_last_event(client, gemini, options):
    gemini.will_say(sse(text_chunk("Good "), text_chunk("day.", "STOP")))
    talk = client.conversations.create()
    for event in client.responses.create(model=MODEL, input="Hello", conversation=talk.id, **options):
        if event.type == "response.completed":
            assert event.response.conversation.id == talk.id
            assert texts(client, talk.id) == ["Hello", "Good day."]
    assert texts(client, talk.id) == ["Hello", "Good day."]


def test_a_background_answer_and_an_unstored_answer_are_added(client, gemini):
    gemini.will_say(sse(text_chunk("One.", "STOP")), sse(text_chunk("Two.", "STOP")))
    talk = client.conversations.create()
    client.responses.create(model=MODEL, input="First", conversation=talk.id, background=True)
    assert eventually(lambda: len(texts(client, talk.id)) == 2)
    made = client.responses.create(model=MODEL, input="Second", conversation=talk.id, store=False)
    assert texts(client, talk.id) == ["First", "One.", "Second", "Two."]
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def test_a_failed_answer_adds_nothing(client, gemini):
    gemini.will_say([*sse(text_chunk("Half an ans")), CUT])
    talk = client.conversations.create()
    list(client.responses.create(model=MODEL, input="Hello", conversation=talk.id, stream=True))
    assert texts(client, talk.id) == []


@pytest.mark.parametrize("dialect", ["openai", "bridge", "codex"])
def test_a_tool_loop_in_a_conversation_keeps_signatures(client, gemini, dialect):
    gemini.will_say(
        sse(call_chunk("f", {"a": 1}, f"loop-{dialect}", signature="c2ln", finish="STOP")),
        sse(text_chunk("Done.", "STOP")),
    )
    talk = client.conversations.create()
    options = {
        "model": MODEL,
        "tools": TOOLS,
        "conversation": talk.id,
        "extra_headers": {"x-bridge-dialect": dialect},
    }
    client.responses.create(input="Go", **options)
    result = [{"type": "function_call_output", "call_id": f"loop-{dialect}", "output": "done"}]
    client.responses.create(input=result, **options)
    _, model, user = gemini.asked[-1].body["contents"]
    assert model["parts"][0]["functionCall"]["args"] == {"a": 1}
    assert model["parts"][0]["thoughtSignature"] == "c2ln"
    assert user["parts"][0]["functionResponse"]["response"] == {"result": "done"}
    items = client.conversations.items.list(talk.id, order="asc").data
    assert [item.type for item in items] == ["message", "function_call", "function_call_output", "message"]
    assert {item.status for item in items} == {"completed"}


def test_a_conversation_excludes_a_previous_response(client, gemini):
    talk = client.conversations.create()
    made = client.responses.create(model=MODEL, input="Hello", conversation=talk.id)
    for wrong, param in (
        ({"conversation": talk.id, "previous_response_id": made.id}, "conversation"),
        ({"previous_response_id": made.id}, "previous_response_id"),
        ({"conversation": ""}, "conversation"),
        ({"conversation": {}}, "conversation"),
        ({"conversation": 5}, "conversation"),
        ({"conversation": {"id": 5}}, "conversation"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model=MODEL, input="On", **wrong)
        assert refused.value.param == param


# --- counting, and paths that are not served ---------------------------------------------------------


def counted_texts(gemini) -> list[str]:
    asked = gemini.asked[-1].body
    contents = asked.get("generateContentRequest", asked)["contents"]
    return [part["text"] for content in contents for part in content["parts"]]


def test_input_tokens_are_counted_with_the_stored_history(client, gemini):
    count = Reply([b'{"totalTokens": 31}'])
    gemini.will_say(sse(text_chunk("Hello.", "STOP")), count, count)
    made = client.responses.create(model=MODEL, input="Hello")
    counted = client.responses.input_tokens.count(model=MODEL, input="On", previous_response_id=made.id)
    assert (counted.object, counted.input_tokens) == ("response.input_tokens", 31)
    assert counted_texts(gemini) == ["Hello", "Hello.", "On"]
    talk = client.conversations.create(items=[HELLO])
    client.responses.input_tokens.count(model=MODEL, conversation=talk.id)
    assert counted_texts(gemini) == ["Hello"]
    assert texts(client, talk.id) == ["Hello"]


@pytest.mark.parametrize("named", [{}, {"model": None}])
def test_input_tokens_are_counted_for_the_default_model_if_none_is_named(send, gemini, named):
    gemini.will_say(Reply([b'{"totalTokens": 3}']))
    counted = send("POST", "/responses/input_tokens", json={"input": "Hello", **named})
    assert (counted.status_code, counted.json()["input_tokens"]) == (200, 3)
    assert gemini.asked[-1].path.endswith(f"/models/{DEFAULT}:countTokens")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": 5, "input": "Hi"}, "model"),
        ({"model": MODEL, "input": 5}, "input"),
        ({"model": MODEL, "input": "Hi", "tools": "x"}, "tools"),
        ({"model": MODEL, "input": "Hi", "previous_response_id": "resp_unknown"}, "previous_response_id"),
    ],
)
def test_wrong_counting_requests_are_refused(send, body, param):
    refused = send("POST", "/responses/input_tokens", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/responses/input_token", 404),
        ("PATCH", "/responses/nothing", 404),
        ("POST", "/responses/resp_1/nothing", 404),
        ("POST", "/conversation", 404),
        ("POST", "/conversations/conv_1/itemz", 404),
        ("POST", "/responses/resp_1", 404),
        ("PUT", "/responses", 405),
        ("PUT", "/responses/compact", 405),
        ("DELETE", "/conversations", 405),
    ],
)
def test_a_path_that_is_not_served_is_not_found(send, method, path, status):
    answer = send(method, path, json={"model": MODEL, "input": "Hi"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, "invalid_request_error")
    assert (
        document("openai").findings(
            "ErrorResponse",
            {
                "error": {
                    name: value for name, value in answer.json()["error"].items() if name != "request_id"
                }
            },
        )
        == []
    )
