"""Stored answers, continued conversations and background work, on real gunicorn with two workers."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

import orjson
import pytest
import requests
from openai import NotFoundError, OpenAI
from scripted_gemini import call_chunk, sse, text_chunk
from waiting import eventually

from bridge.errors import InternalError, InvalidRequest
from bridge.exchange.stored_answers import AnswerRecorder
from bridge.observe.record import Record
from bridge.protocols.openai_responses.storing import STORING
from bridge.state.errors import StorageError
from bridge.state.sqlite.answer_store import SqliteAnswerStore


class Api:
    def __init__(self, address: str, key: str) -> None:
        self._address = f"{address}/v1/responses"
        self.headers = {"Authorization": f"Bearer {key}"}

    def __call__(self, method: str, path: str = "", **options):
        return requests.request(method, f"{self._address}{path}", headers=self.headers, timeout=30, **options)

    def create(self, **body):
        answer = self("POST", json={"model": "gpt-5", "input": "Hello", **body})
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def api(bridge, gemini):
    return Api(bridge.address, "alice")


@pytest.fixture
def stranger(bridge):
    return Api(bridge.address, "mallory")


def said(asked) -> list[str]:
    return [part["text"] for content in asked.body["contents"] for part in content["parts"] if "text" in part]


def test_any_worker_returns_a_stored_answer(api):
    made = api.create()
    for _ in range(8):
        assert api("GET", f"/{made['id']}").json() == made


def test_a_streamed_answer_is_stored(bridge, gemini):
    with OpenAI(base_url=f"{bridge.address}/v1", api_key="alice", max_retries=0) as client:
        with client.responses.stream(model="gpt-5", input="Hello") as stream:
            made = stream.get_final_response()
        kept = client.responses.retrieve(made.id)
        assert kept.output_text == made.output_text == "Hello."
        client.responses.delete(made.id)
        with pytest.raises(NotFoundError):
            client.responses.retrieve(made.id)


def test_a_conversation_continues_from_a_stored_answer(api, gemini):
    gemini.will_say(sse(text_chunk("I am Gemini.", "STOP")), sse(text_chunk("You said hello.", "STOP")))
    first = api.create(input="Hello", instructions="Be brief.")
    second = api.create(input="What did I say?", previous_response_id=first["id"])
    third = api.create(input="And before?", previous_response_id=second["id"])
    assert third["previous_response_id"] == second["id"]
    assert said(gemini.asked[-1]) == [
        "Hello",
        "I am Gemini.",
        "What did I say?",
        "You said hello.",
        "And before?",
    ]
    assert "systemInstruction" not in gemini.asked[-1].body, "instructions are not taken over"


def test_a_tool_loop_can_send_the_result_alone(api, gemini):
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    gemini.will_say(sse(call_chunk("f", {"a": 1}, "stored-1", signature="c2ln", finish="STOP")))
    first = api.create(tools=tools, model="gemini-3.1-pro-preview")
    result = [{"type": "function_call_output", "call_id": "stored-1", "output": "done"}]
    api.create(tools=tools, model="gemini-3.1-pro-preview", input=result, previous_response_id=first["id"])
    _, model, user = gemini.asked[-1].body["contents"]
    assert model["parts"][0]["functionCall"]["args"] == {"a": 1}
    assert model["parts"][0]["thoughtSignature"] == "c2ln"
    assert user["parts"][0]["functionResponse"]["response"] == {"result": "done"}


def test_an_item_can_be_referenced_by_its_id(api, stranger, gemini):
    gemini.will_say(sse(text_chunk("I am Gemini.", "STOP")))
    first = api.create(input="Hello")
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    question = [{"role": "user", "content": "Hello"}, reference, {"role": "user", "content": "On"}]
    api.create(input=question)
    assert said(gemini.asked[-1]) == ["Hello", "I am Gemini.", "On"]
    refused = stranger("POST", json={"model": "gpt-5", "input": question})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input[1].id")
    api("DELETE", f"/{first['id']}")
    assert api("POST", json={"model": "gpt-5", "input": question}).status_code == 400


def text_of(item):
    """The text of a listed message, which is in the vendor's complete form."""
    assert (item["type"], item["status"]) == ("message", "completed")
    (part,) = item["content"]
    assert part["type"] == "input_text"
    return part["text"]


def test_input_items_are_listed_in_pages(api):
    items = [{"role": "user", "content": f"Number {number}"} for number in range(5)]
    made = api.create(input=items)
    page = api("GET", f"/{made['id']}/input_items", params={"limit": 2, "order": "asc"}).json()
    assert [text_of(item) for item in page["data"]] == ["Number 0", "Number 1"]
    assert page["has_more"]
    rest = api("GET", f"/{made['id']}/input_items", params={"order": "asc", "after": page["last_id"]}).json()
    assert [text_of(item) for item in rest["data"]] == ["Number 2", "Number 3", "Number 4"]
    newest = api("GET", f"/{made['id']}/input_items").json()
    assert text_of(newest["data"][0]) == "Number 4"
    for limit in ("many", "0", "101", "0001999", "-1", "1.0", "", "٣", "1" * 500):
        refused = api("GET", f"/{made['id']}/input_items", params={"limit": limit})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "limit")
    assert api("GET", f"/{made['id']}/input_items", params={"limit": "002"}).status_code == 200
    assert api("GET", f"/{made['id']}/input_items", params={"after": "nothing"}).status_code == 400


def test_unstored_answers_are_not_kept(api):
    made = api.create(store=False)
    assert api("GET", f"/{made['id']}").status_code == 404


def test_another_key_cannot_read_a_stored_answer(api, stranger):
    made = api.create()
    for method, path in (("GET", ""), ("GET", "/input_items"), ("DELETE", ""), ("POST", "/cancel")):
        answer = stranger(method, f"/{made['id']}{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    body = {"model": "gpt-5", "input": "Hi", "previous_response_id": made["id"]}
    refused = stranger("POST", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "previous_response_id")
    assert api("GET", f"/{made['id']}").status_code == 200


def start_background(api) -> tuple[dict, str]:
    """Start a background answer; return it and the id of its request."""
    asked = api("POST", json={"model": "gpt-5", "input": "Hello", "background": True})
    assert asked.json()["status"] == "queued"
    return asked.json(), asked.headers["x-request-id"]


def two_lines(bridge, request_id: str) -> list[dict]:
    """Return the log entries of the answer and of the background work, which ends a moment later."""
    assert eventually(lambda: len(bridge.requests(request_id=request_id)) == 2)
    return bridge.requests(request_id=request_id)


def wait_for(api, answer_id: str, status: str) -> dict:
    def shown() -> dict:
        return api("GET", f"/{answer_id}").json()

    assert eventually(lambda: shown()["status"] == status), shown()
    return shown()


def test_a_background_answer_runs_and_is_fetched_later(api, bridge, gemini):
    gemini.will_say([*sse(text_chunk("Slow ")), 0.5, *sse(text_chunk("work.", "STOP"))])
    made, request_id = start_background(api)
    done = wait_for(api, made["id"], "completed")
    assert done["output"][0]["content"][0]["text"] == "Slow work."
    assert done["background"] is True
    assert [line.get("output_tokens") for line in two_lines(bridge, request_id)] == [None, 2]


def test_a_background_answer_can_be_cancelled(api, gemini):
    gemini.will_say([piece for _ in range(100) for piece in (*sse(text_chunk("more ")), 0.1)])
    made = api.create(background=True)
    assert api("POST", f"/{made['id']}/cancel").json()["status"] == "cancelled"
    assert wait_for(api, made["id"], "cancelled")
    assert api("POST", f"/{made['id']}/cancel").json()["status"] == "cancelled"


@pytest.fixture
def nearly_done(gemini):
    """The upstream holds the last chunk until the event is set, and then ends before the next check."""
    gone = threading.Event()
    last = sse(text_chunk("Too late.", "STOP"))
    gemini.will_say([*sse(text_chunk("Soon. ")), lambda: gone.wait(60), *last])
    yield gone
    gone.set()


def test_a_deleted_background_answer_stays_deleted(api, bridge, nearly_done):
    made, request_id = start_background(api)
    assert api("DELETE", f"/{made['id']}").status_code == 200
    nearly_done.set()
    two_lines(bridge, request_id)
    assert api("GET", f"/{made['id']}").status_code == 404


def test_a_background_answer_cancelled_just_before_its_end_stays_cancelled(api, bridge, nearly_done):
    made, request_id = start_background(api)
    assert api("POST", f"/{made['id']}/cancel").json()["status"] == "cancelled"
    nearly_done.set()
    two_lines(bridge, request_id)
    assert api("GET", f"/{made['id']}").json()["status"] == "cancelled"


def test_only_a_background_answer_can_be_cancelled(api):
    made = api.create()
    assert api("POST", f"/{made['id']}/cancel").status_code == 400


def test_a_failed_background_answer_reports_its_error(api, gemini):
    gemini.will_say(sse(text_chunk("Half an ans")))
    made = api.create(background=True)
    assert wait_for(api, made["id"], "failed")["error"]["bridge_code"] == "upstream_truncated"


# --- only the store ----------------------------------------------------------------------------------


def answer(number: int, size: int = 0) -> dict:
    return {"id": f"resp_{number}", "output": [], "status": "completed", "padding": "x" * size}


def test_references_to_items_of_one_answer_load_it_once_and_each_is_admitted(tmp_path):
    store = SqliteAnswerStore(tmp_path / "a.sqlite3", days=30, megabytes=1)
    items = [{"id": f"msg_{n}", "type": "message", "role": "assistant", "content": "x"} for n in (1, 2)]
    kept = {**answer(1), "output": items}
    store.keep("o", kept, [], None)
    admitted: list[int] = []
    recorder = AnswerRecorder(STORING, store, "o", admitted.append)
    given = [{"type": "item_reference", "id": f"msg_{n}"} for n in (1, 2, 1)]
    assert recorder.dereferenced({"input": given})["input"] == [items[0], items[1], items[0]]
    assert admitted == [len(orjson.dumps(kept))] * 3
    stranger = AnswerRecorder(STORING, store, "you", admitted.append)
    with pytest.raises(InvalidRequest, match="there is no stored item with this id"):
        stranger.dereferenced({"input": given})


def test_an_answer_of_a_dead_worker_has_failed(tmp_path):
    clock = [0.0]
    store = SqliteAnswerStore(tmp_path / "a.sqlite3", days=30, megabytes=1, now=lambda: clock[0])
    store.keep("o", {**answer(1), "status": "in_progress"}, [], None)
    recorder = AnswerRecorder(STORING, store, "o", [].append)
    assert recorder.shown("resp_1", {})["status"] == "in_progress"
    clock[0] += 61
    assert recorder.shown("resp_1", {})["status"] == "failed"


def test_an_unusable_store_does_not_prevent_answers(tmp_path):
    place = tmp_path / "a.sqlite3"
    place.write_bytes(b"this is not a database, and never was one" * 100)
    recorder = AnswerRecorder(STORING, SqliteAnswerStore(place, days=30, megabytes=1), "o", [].append)
    recorder.keeping({"input": "Hi"}, Record("req_1", "POST", "/"))(answer(1))
    with pytest.raises(InternalError):
        recorder.found("resp_1")
    with pytest.raises(StorageError):
        recorder.store.find("o", "resp_1")


def test_a_stored_answer_keeps_its_conversation_id(tmp_path):
    store = SqliteAnswerStore(tmp_path / "a.sqlite3", days=30, megabytes=1)
    recorder = AnswerRecorder(STORING, store, "o", [].append)
    record = Record("req_1", "POST", "/", conversation="talk")
    recorder.keeping({"input": "Hi"}, record)(answer(1))
    assert recorder.resumed({"input": "More", "previous_response_id": "resp_1"}).conversation == "talk"
    recorder.forget("resp_1")
    assert store.conversation("resp_1") == ""


def test_answers_of_the_previous_version_share_the_conversation_of_their_root(tmp_path):
    path = tmp_path / "a.sqlite3"
    store = SqliteAnswerStore(path, days=30, megabytes=1)
    store.keep("o", answer(1), [], None, "talk")
    store.keep("o", answer(2), [], "resp_1", "talk")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "DROP TABLE conversation; DROP TRIGGER answer_left_conversation; PRAGMA user_version = 0"
        )
    recorder = AnswerRecorder(STORING, SqliteAnswerStore(path, days=30, megabytes=1), "o", [].append)
    told = {
        recorder.resumed({"input": "More", "previous_response_id": each}).conversation
        for each in ("resp_1", "resp_2")
    }
    assert len(told) == 1
    assert told != {"talk"}
    assert told != {""}
