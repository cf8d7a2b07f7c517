"""Events of background answers: written in batches, replayed, and ended for answers whose worker stopped."""

from __future__ import annotations

import time

import orjson
import pytest
from waiting import eventually

from bridge.errors import InvalidRequest, NotAuthorized, UnknownAnswer
from bridge.exchange import background, event_replay
from bridge.exchange.background import EventLog
from bridge.exchange.drain import Drain
from bridge.exchange.event_replay import EventReplay
from bridge.exchange.stored_answers import AnswerRecorder
from bridge.protocols.base import Caller
from bridge.protocols.gemini_interactions.storing import STORING as INTERACTIONS
from bridge.protocols.openai_responses.storing import STORING
from bridge.state.errors import StorageUnavailable
from bridge.state.event_store import EventBatch
from bridge.state.sqlite.answer_store import SqliteAnswerStore
from bridge.state.sqlite.event_store import SqliteEventStore

ANSWER = {"id": "resp_1", "object": "response", "status": "in_progress", "output": [], "background": True}


def event(number: int) -> bytes:
    return b"event: e\ndata: %d\n\n" % number


class Rig:
    def __init__(self, folder, storing=STORING, answer=ANSWER) -> None:
        self.now = time.time()
        self.answers = SqliteAnswerStore(folder / "a.sqlite3", 30, 9, now=lambda: self.now)
        self.events = SqliteEventStore(folder / "e.sqlite3", 30, 9)
        self.recorder = AnswerRecorder(storing, self.answers, "me", [].append)
        self.answer = answer
        self.answers.keep("me", answer, [], None)
        self.log = EventLog(self.events, "me", answer["id"])
        self.log.announce()

    def replay(self, heartbeat: float = 60.0) -> EventReplay:
        return EventReplay(self.recorder, self.events, Drain(), heartbeat)

    def stream(self, position: int = 0, dialect: str = "openai") -> list[bytes]:
        caller = Caller({"x-bridge-dialect": dialect})
        return list(self.replay().stream(self.answer["id"], position, caller, lambda: True))


@pytest.fixture
def rig(tmp_path, monkeypatch):
    monkeypatch.setattr(event_replay, "CHECK_INTERVAL", 0.0)
    monkeypatch.setattr(event_replay, "POLL_INTERVAL", 0.01)
    return Rig(tmp_path)


def data_of(encoded: bytes) -> list[dict]:
    return [orjson.loads(line[6:]) for line in encoded.splitlines() if line.startswith(b"data: ")]


def test_events_are_collected_before_they_are_stored(rig, monkeypatch):
    monkeypatch.setattr(background, "WRITE_INTERVAL", 0.3)
    for number in range(50):
        rig.log.add(1, event(number))
    assert rig.events.read("me", "resp_1", 0) == []
    assert eventually(lambda: rig.events.read("me", "resp_1", 0))
    assert [batch.length for batch in rig.events.read("me", "resp_1", 0)] == [50]


def test_many_bytes_are_stored_at_once(rig, monkeypatch):
    monkeypatch.setattr(background, "WRITE_INTERVAL", 60)
    rig.log.add(1, b"x" * background.LARGEST_BATCH)
    assert [batch.length for batch in rig.events.read("me", "resp_1", 0)] == [1]


def test_events_survive_a_store_that_fails_for_a_while(rig, monkeypatch):
    def fail(*_arguments):
        raise StorageUnavailable("busy")

    monkeypatch.setattr(background, "WRITE_INTERVAL", 0.01)
    with monkeypatch.context() as failing:
        failing.setattr(rig.events, "append", fail)
        rig.log.add(1, event(0))
        time.sleep(0.2)
    rig.log.add(1, event(1))
    rig.log.finish([(1, event(2))])
    assert b"".join(rig.stream()) == b"".join(map(event, range(3)))


def test_dropped_events_are_not_stored(rig, monkeypatch):
    monkeypatch.setattr(background, "WRITE_INTERVAL", 0.05)
    rig.log.add(1, event(0))
    rig.log.drop()
    time.sleep(0.2)
    assert rig.events.read("me", "resp_1", 0) == []


@pytest.mark.parametrize(
    ("dialect", "kinds"),
    [
        ("openai", ["response.failed"]),
        ("codex", ["response.failed"]),
        ("bridge", ["response.failed", "response.done", "response.completed"]),
    ],
)
def test_an_answer_of_a_dead_worker_ends_as_failed(rig, dialect, kinds):
    rig.events.append("me", "resp_1", EventBatch(0, 2, event(0) + event(1)))
    rig.now += 61
    events, ending = rig.stream(dialect=dialect)
    assert events == event(0) + event(1)
    found = data_of(ending)
    assert [each["type"] for each in found] == kinds
    assert [each["sequence_number"] for each in found] == list(range(2, 2 + len(kinds)))
    assert {each["response"]["status"] for each in found} == {"failed"}
    assert rig.stream(2, dialect) == [ending]


def test_an_answer_without_any_event_begins_before_it_ends(rig):
    rig.now += 61
    assert [each["type"] for each in data_of(*[b"".join(rig.stream())])] == [
        "response.created",
        "response.failed",
    ]


@pytest.mark.parametrize(
    ("status", "kind"), [("completed", "response.completed"), ("incomplete", "response.incomplete")]
)
def test_a_finished_answer_whose_last_events_were_lost_still_ends(rig, status, kind):
    rig.events.append("me", "resp_1", EventBatch(0, 1, event(0)))
    rig.answers.update("me", {**ANSWER, "status": status})
    rig.now += 4
    (last,) = data_of(rig.stream(1)[-1])
    assert (last["type"], last["sequence_number"], last["response"]["status"]) == (kind, 1, status)


def test_a_worker_that_stops_ends_its_streams(rig):
    drain = Drain()
    drain.begin(0)
    replay = EventReplay(rig.recorder, rig.events, drain, 60)
    assert list(replay.stream("resp_1", 0, Caller(), lambda: True)) == []


def test_an_interruption_ends_a_stream_that_has_events(rig, monkeypatch):
    monkeypatch.setattr(background, "LARGEST_BATCH", 1)
    caller = Caller({"x-bridge-dialect": "openai"})
    rig.log.add(1, event(0))
    stream = rig.replay().stream("resp_1", 0, caller, lambda: True)
    assert next(stream) == event(0)
    caller.interruption.error = NotAuthorized("The key was revoked.")
    rig.log.add(1, event(1))
    (ending,) = stream
    (failed,) = data_of(ending)
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 1)
    assert "The key was revoked." in failed["response"]["error"]["message"]


def test_following_an_answer_books_its_memory_once(rig, monkeypatch):
    booked: list[int] = []
    recorder = AnswerRecorder(STORING, rig.answers, "me", booked.append)
    rig.now += 50  # idle, but not lost: each look loads the answer
    looks = iter([True] * 20)
    replay = EventReplay(recorder, rig.events, Drain(), 60)
    assert list(replay.stream("resp_1", 0, Caller(), lambda: next(looks, False))) == []
    assert len(booked) == 1


def test_a_store_that_stays_unusable_ends_the_stream_as_failed(rig, monkeypatch):
    def fail(*_arguments):
        raise StorageUnavailable("busy")

    stream = rig.replay(heartbeat=0.0).stream("resp_1", 0, Caller(), lambda: True)
    assert next(stream) == b": keep-alive\n\n"
    monkeypatch.setattr(rig.answers, "progress", fail)
    monkeypatch.setattr(rig.events, "read", fail)
    assert next(stream) == b": keep-alive\n\n"
    monkeypatch.setattr(event_replay, "LOST_AFTER", 0.0)
    *_, ending = stream
    last = data_of(ending)[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"]["code"] == "server_error"


def test_heartbeats_are_sent_while_nothing_happens_until_the_client_leaves(rig):
    pieces = []
    stream = rig.replay(heartbeat=0.02).stream("resp_1", 0, Caller(), lambda: len(pieces) < 3)
    while (piece := next(stream, None)) is not None:
        pieces.append(piece)
    assert pieces == [b": keep-alive\n\n"] * 3


def test_only_the_owner_of_an_answer_with_events_may_stream_it(rig):
    rig.replay().check("resp_1")
    stranger = AnswerRecorder(STORING, rig.answers, "you", [].append)
    with pytest.raises(UnknownAnswer):
        EventReplay(stranger, rig.events, Drain(), 60).check("resp_1")
    rig.answers.keep("me", {**ANSWER, "id": "resp_2"}, [], None)
    with pytest.raises(InvalidRequest, match="stream"):
        rig.replay().check("resp_2")
    rig.replay().forget("resp_1")
    assert not rig.events.exists("me", "resp_1")


@pytest.mark.parametrize(("errors", "kind"), [([], "interaction.completed"), ([{"code": "X"}], "error")])
def test_an_interaction_ends_in_its_own_events(tmp_path, monkeypatch, errors, kind):
    monkeypatch.setattr(event_replay, "CHECK_INTERVAL", 0.0)
    answer = {"id": "v1_1", "object": "interaction", "status": "in_progress", "steps": []}
    rig = Rig(tmp_path, INTERACTIONS, answer)
    rig.answers.update("me", {**answer, "status": "completed", **({"errors": errors} if errors else {})})
    rig.now += 4
    ending = b"".join(rig.stream())
    assert ending.endswith(b"event: done\ndata: [DONE]\n\n")
    found = data_of(ending.removesuffix(b"event: done\ndata: [DONE]\n\n"))
    assert [(each["event_type"], each["event_id"]) for each in found] == [
        ("interaction.created", "1"),
        (kind, "2"),
    ]
