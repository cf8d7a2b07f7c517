"""The answer store: limited in age and size, each owner's own, and chains of turns."""

from __future__ import annotations

import orjson
import pytest

from bridge.errors import TooBusy
from bridge.state.answer_store import LONGEST_CHAIN


def answer(number: int, size: int = 0) -> dict:
    return {"id": f"resp_{number}", "output": [], "status": "completed", "padding": "x" * size}


def test_answers_expire(backend, clock):
    store = backend.answers(clock, days=1, megabytes=1)
    store.keep("o", answer(1), [], None)
    clock.now += 24 * 3600 - 1
    assert store.find("o", "resp_1") is not None
    clock.now += 2
    assert store.find("o", "resp_1") is None


def test_the_oldest_answers_are_deleted_when_the_store_is_full(backend, clock, monkeypatch):
    store = backend.answers(clock, days=30, megabytes=1)
    monkeypatch.setattr(type(store), "writes_between_tidying", 1)
    for number in range(5):
        clock.now += 1
        store.keep("o", answer(number, 300_000), [], None)
    kept = [number for number in range(5) if store.find("o", f"resp_{number}")]
    assert kept == [2, 3, 4]


def test_a_chain_with_a_missing_answer_is_refused(backend):
    store = backend.answers()
    store.keep("o", answer(1), [], None)
    store.keep("o", answer(2), [], "resp_1")
    assert [turn.id for turn in store.chain("o", "resp_2", [].append)] == ["resp_1", "resp_2"]
    assert store.chain("you", "resp_2", [].append) is None
    store.forget("o", "resp_1")
    assert store.chain("o", "resp_2", [].append) is None


def test_a_chain_is_admitted_before_it_is_loaded_and_read_once(backend):
    store = backend.answers()
    question = [{"id": "item_1", "type": "message", "role": "user", "content": "é" * 1000}]
    for number in range(1, 4):
        store.keep("o", answer(number, 1000), question, f"resp_{number - 1}" if number > 1 else None)
    admitted, loaded = [], []
    find = store.find
    store.find = lambda owner, answer_id: loaded.append(answer_id) or find(owner, answer_id)

    def refuse(size: int) -> None:
        admitted.append(size)
        raise TooBusy("not now")

    with pytest.raises(TooBusy):
        store.chain("o", "resp_3", refuse)
    assert not loaded
    store.chain("o", "resp_3", admitted.append)
    assert loaded == ["resp_1", "resp_2", "resp_3"]
    bytes_kept = sum(len(orjson.dumps(question)) + len(orjson.dumps(answer(n, 1000))) for n in (1, 2, 3))
    assert admitted == [bytes_kept, bytes_kept]


def test_an_overlong_chain_is_truncated_and_a_cyclic_chain_ends(backend):
    store = backend.answers()
    store.keep("o", answer(1), [], "resp_2")
    store.keep("o", answer(2), [], "resp_1")
    assert len(store.chain("o", "resp_2", [].append)) == LONGEST_CHAIN


def test_a_deleted_or_cancelled_answer_is_not_updated(backend):
    store = backend.answers()
    for number in (1, 2, 3):
        store.keep("me", answer(number), [], None)
    store.cancel("me", answer(1)["id"])
    store.forget("me", answer(2)["id"])
    assert [store.update("me", {**answer(number), "status": "completed"}) for number in (1, 2, 3)] == [
        False,
        False,
        True,
    ]
    assert not store.update("you", answer(3))
    found = [store.find("me", answer(number)["id"]) for number in (1, 2, 3)]
    assert [kept and kept.answer.get("status") for kept in found] == [
        answer(1).get("status"),
        None,
        "completed",
    ]


def test_a_touched_answer_is_not_idle_until_it_is_cancelled(backend, clock):
    store = backend.answers(clock)
    store.keep("o", answer(1), [], None)
    clock.now += 40
    assert store.find("o", "resp_1").idle == 40
    assert store.progress("o", "resp_1") == (40, False)
    assert store.progress("you", "resp_1") is None
    assert store.touch("o", "resp_1")
    clock.now += 2
    assert store.find("o", "resp_1").idle == 2
    assert store.cancel("o", "resp_1")
    assert not store.touch("o", "resp_1")
    assert store.find("o", "resp_1").cancelled
    assert store.progress("o", "resp_1") == (2, True)


def test_items_are_found_by_their_owner_with_those_beside_them(backend):
    store = backend.answers()
    items = [{"id": "msg_1", "text": "a"}, {"id": "msg_2", "text": "b"}]
    kept = {**answer(1), "output": items}
    store.keep("o", kept, [], None)
    admitted = []
    assert store.items_beside("o", "msg_2", admitted.append) == items
    assert admitted == [len(orjson.dumps(kept))]
    assert store.items_beside("you", "msg_2", admitted.append) == []
    store.forget("o", "resp_1")
    assert store.items_beside("o", "msg_2", admitted.append) == []
    assert len(admitted) == 1


def test_a_stored_answer_keeps_its_conversation_id(backend):
    store = backend.answers()
    store.keep("o", answer(1), [], None, "talk")
    assert store.conversation("resp_1") == "talk"
    assert store.forget("o", "resp_1")
    assert not store.forget("o", "resp_1")
    assert store.conversation("resp_1") == ""
