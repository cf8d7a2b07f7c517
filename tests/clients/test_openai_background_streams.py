"""Background responses that are streamed and resumed with the real `openai` package, on two workers."""

from __future__ import annotations

import threading

import openai
import pytest
import requests
from openai import OpenAI
from scripted_gemini import CUT, sse, text_chunk
from waiting import eventually

MODEL = "gemini-3.1-pro-preview"
DIALECTS = ("openai", "bridge", "codex")
WORDS = [f"word{number} " for number in range(10)]


def slow_words() -> list:
    pieces = [piece for word in WORDS for piece in (*sse(text_chunk(word)), 0.1)]
    return [*pieces, *sse(text_chunk("end.", "STOP"))]


@pytest.fixture
def client(bridge):
    with OpenAI(base_url=f"{bridge.address}/v1", api_key="alice", max_retries=0) as sdk:
        yield sdk


@pytest.fixture
def held(gemini):
    """The upstream sends a text and then waits until the event is set."""
    release = threading.Event()
    gemini.will_say(
        [*sse(text_chunk("Begun. ")), lambda: release.wait(60), *sse(text_chunk("Done.", "STOP"))]
    )
    yield release
    release.set()


def begin(client: OpenAI, until: int = 3, **options) -> tuple[str, list]:
    """Start a background stream and break it off; return the id and the events until then."""
    events = []
    with client.responses.create(
        model=MODEL, input="Hello", background=True, stream=True, **options
    ) as stream:
        for event in stream:
            events.append(event)
            if event.sequence_number >= until:
                break
    return events[0].response.id, events


def text_of(events) -> str:
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_that_was_broken_off_goes_on_and_is_resumed(client, gemini, dialect):
    gemini.will_say(slow_words())
    headers = {"x-bridge-dialect": dialect}
    answer_id, first = begin(client, until=5, extra_headers=headers)
    for _ in range(3):  # on either worker, during the work and after it
        after = first[-1].sequence_number
        rest = list(
            client.responses.retrieve(answer_id, stream=True, starting_after=after, extra_headers=headers)
        )
        events = [*first, *(event for event in rest if event.type != "keepalive")]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert text_of(events) == "".join(WORDS) + "end."
        assert events[-1].type == "response.completed"
        assert events[-1].response.status == "completed"
    assert client.responses.retrieve(answer_id).output_text == "".join(WORDS) + "end."
    assert len(gemini.asked) == 1


def test_a_whole_background_stream_is_the_same_when_it_is_replayed(client, gemini):
    gemini.will_say(sse(text_chunk("Good "), text_chunk("day.", "STOP")))
    live = list(client.responses.create(model=MODEL, input="Hello", background=True, stream=True))
    answer_id = live[0].response.id
    assert list(client.responses.retrieve(answer_id, stream=True)) == live
    assert list(client.responses.retrieve(answer_id, stream=True, starting_after=2)) == live[3:]
    last = live[-1].sequence_number
    assert list(client.responses.retrieve(answer_id, stream=True, starting_after=last)) == []
    assert list(client.responses.retrieve(answer_id, stream=True, starting_after=last + 1000)) == []


@pytest.mark.parametrize(
    ("dialect", "kinds", "statuses"),
    [
        ("openai", ["created", "queued", "in_progress"], ["queued", "queued", "in_progress"]),
        ("bridge", ["created", "in_progress"], ["in_progress", "in_progress"]),
        ("codex", ["created", "in_progress"], ["in_progress", "in_progress"]),
    ],
)
def test_only_the_vendors_dialect_begins_with_a_queued_response(client, gemini, dialect, kinds, statuses):
    headers = {"x-bridge-dialect": dialect}
    made = client.responses.create(
        model=MODEL, input="Hello", background=True, stream=True, extra_headers=headers
    )
    first = list(made)[: len(kinds)]
    assert [event.type for event in first] == [f"response.{kind}" for kind in kinds]
    assert [event.response.status for event in first] == statuses


def test_a_stream_in_the_foreground_has_no_queued_response(client, gemini):
    events = list(client.responses.create(model=MODEL, input="Hello", stream=True))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[0].response.status == "in_progress"


def test_several_clients_follow_one_answer(client, gemini, held):
    answer_id, _ = begin(client)
    found: dict[int, list] = {}

    def follow(number: int) -> None:
        found[number] = list(client.responses.retrieve(answer_id, stream=True))

    threads = [threading.Thread(target=follow, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    held.set()
    for thread in threads:
        thread.join()
    assert [text_of(found[number]) for number in range(4)] == ["Begun. Done."] * 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_follower_gets_heartbeats_and_the_end_of_a_cancelled_answer(client, bridge, held, dialect):
    headers = {"Authorization": "Bearer alice", "x-bridge-dialect": dialect}
    answer_id, _ = begin(client)
    with requests.get(
        f"{bridge.address}/v1/responses/{answer_id}?stream=true", headers=headers, stream=True, timeout=30
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        heartbeat = b": keep-alive" if dialect == "openai" else b'data: {"type":"keepalive"}'
        assert any(line == heartbeat for line in lines)
        assert client.responses.cancel(answer_id).status == "cancelled"
        kinds = [line.removeprefix(b"event: ") for line in lines if line.startswith(b"event: ")]
    assert kinds[-1] == (b"response.completed" if dialect == "bridge" else b"response.failed")
    assert client.responses.retrieve(answer_id).status == "cancelled"
    *_, last = client.responses.retrieve(answer_id, stream=True)
    assert (last.type, last.response.status) == ("response.failed", "cancelled")


def test_a_follower_gets_the_end_of_a_deleted_answer(client, held):
    answer_id, _ = begin(client)
    events = iter(client.responses.retrieve(answer_id, stream=True))
    assert next(events).type == "response.created"
    client.responses.delete(answer_id)
    *_, last = events
    assert (last.type, last.response.status) == ("response.failed", "failed")
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer_id, stream=True)


def test_a_failure_ends_the_stream_and_every_replay(client, gemini):
    gemini.will_say([*sse(text_chunk("Half an ans")), CUT])
    live = list(client.responses.create(model=MODEL, input="Hello", background=True, stream=True))
    assert (live[-1].type, live[-1].response.status) == ("response.failed", "failed")
    assert list(client.responses.retrieve(live[0].response.id, stream=True)) == live
    assert client.responses.retrieve(live[0].response.id).status == "failed"


def test_another_key_cannot_stream_an_answer(client, bridge, gemini):
    answer_id, _ = begin(client)
    stranger = client.with_options(api_key="mallory")
    with pytest.raises(openai.NotFoundError):
        stranger.responses.retrieve(answer_id, stream=True)


def test_a_wrong_position_is_refused(client, gemini):
    answer_id, _ = begin(client)
    for wrong in ("-1", "many", "1.5", "", "٣", "1" * 500, "+1", " 1"):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.retrieve(answer_id, stream=True, starting_after=wrong)
        assert refused.value.param == "starting_after"
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.retrieve(answer_id, extra_query={"stream": "maybe"})
    assert refused.value.param == "stream"


@pytest.mark.parametrize("options", [{}, {"background": True}, {"stream": True}])
def test_an_answer_without_stored_events_cannot_be_streamed(client, gemini, options):
    made = client.responses.create(model=MODEL, input="Hello", **options)
    answer_id = next(iter(made)).response.id if options.get("stream") else made.id
    if options.get("stream"):
        for _ in made:
            pass
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.retrieve(answer_id, stream=True)
    assert refused.value.param == "stream"


def test_an_unknown_answer_is_not_found(client):
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_unknown", stream=True)


def test_background_work_is_logged_once_for_the_request_and_once_for_the_work(client, bridge, gemini):
    gemini.will_say(sse(text_chunk("Good day.", "STOP")))
    answer = client.responses.with_raw_response.create(
        model=MODEL, input="Hello", background=True, stream=True
    )
    list(answer.parse())
    request_id = answer.headers["x-request-id"]
    assert eventually(lambda: len(bridge.requests(request_id=request_id)) == 2)
    assert [line.get("output_tokens") for line in bridge.requests(request_id=request_id)].count(2) == 1
