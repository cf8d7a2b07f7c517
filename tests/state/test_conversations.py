"""The conversation store: items in order, each owner's own, limited in age and size."""

from __future__ import annotations

import pytest

from bridge.state.conversation_store import KeptConversation

TALK = KeptConversation("conv_1", 1_900_000_000, {"topic": "demo"})


def item(number: int, size: int = 0) -> dict:
    return {"id": f"msg_{number}", "type": "message", "text": "x" * size}


def test_a_conversation_is_found_and_its_metadata_replaced(backend):
    store = backend.conversations()
    store.create("me", TALK, [])
    assert backend.conversations().find("me", "conv_1") == TALK
    assert store.update("me", "conv_1", {"topic": "other"})
    assert store.find("me", "conv_1") == KeptConversation("conv_1", TALK.created, {"topic": "other"})
    assert store.items("me", "conv_1") == []
    assert store.size("me", "conv_1") == 0


def test_items_are_kept_in_order_and_once(backend):
    store = backend.conversations()
    store.create("me", TALK, [item(2), item(1)])
    assert store.append("me", "conv_1", [item(3), item(2), item(4)])
    assert backend.conversations().items("me", "conv_1") == [item(2), item(1), item(3), item(4)]
    assert store.size("me", "conv_1") > 0
    assert store.forget_item("me", "conv_1", "msg_1")
    assert not store.forget_item("me", "conv_1", "msg_1")
    assert store.items("me", "conv_1") == [item(2), item(3), item(4)]


def test_item_ids_with_unusual_characters_are_different_ids(backend):
    items = [{"id": each, "type": "message"} for each in ("msg\0", "msg\ufffd", "msg é", "")]
    store = backend.conversations()
    store.create("me", TALK, items)
    assert store.items("me", "conv_1") == items
    assert store.forget_item("me", "conv_1", "msg\0")
    assert store.items("me", "conv_1") == items[1:]


def test_a_conversation_belongs_to_its_owner(backend):
    store = backend.conversations()
    store.create("me", TALK, [item(1)])
    assert store.find("you", "conv_1") is None
    assert store.size("you", "conv_1") is None
    assert store.items("you", "conv_1") == []
    assert not store.update("you", "conv_1", {})
    assert not store.append("you", "conv_1", [item(2)])
    assert not store.forget_item("you", "conv_1", "msg_1")
    assert not store.forget("you", "conv_1")
    assert store.items("me", "conv_1") == [item(1)]


def test_a_deleted_conversation_is_gone_with_its_items(backend):
    store = backend.conversations()
    store.create("me", TALK, [item(1)])
    assert store.forget("me", "conv_1")
    assert not store.forget("me", "conv_1")
    store.create("me", TALK, [])
    assert store.items("me", "conv_1") == []


@pytest.mark.parametrize("use", ["append", "update", "nothing"])
def test_a_conversation_expires_after_its_last_use(backend, clock, use):
    store = backend.conversations(clock, days=1)
    store.create("me", TALK, [])
    clock.now += 24 * 3600 - 1
    {
        "append": lambda: store.append("me", "conv_1", [item(1)]),
        "update": lambda: store.update("me", "conv_1", {}),
        "nothing": lambda: None,
    }[use]()
    clock.now += 2
    assert (store.find("me", "conv_1") is None) is (use == "nothing")


def test_the_conversations_that_were_not_used_longest_are_deleted_when_the_store_is_full(
    backend, clock, monkeypatch
):
    store = backend.conversations(clock, megabytes=1)
    monkeypatch.setattr(type(store), "writes_between_tidying", 1)
    for number in range(4):
        clock.now += 1
        store.create("me", KeptConversation(f"conv_{number}", 1, {}), [item(number, 400_000)])
    assert [number for number in range(4) if store.find("me", f"conv_{number}")] == [2, 3]
