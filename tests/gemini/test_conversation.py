"""How the conversation of a request is identified: by each source in its order, and never across owners."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.gemini.conversation import (
    LONGEST_NAME,
    Session,
    conversation_id,
    digest,
    session_in_headers,
    session_in_metadata,
)
from bridge.gemini.types import MODEL, USER, Content, GenerateRequest, InlineData, Part
from bridge.gemini.wire import request_to_json

UUID = "f6e3bf85-23c9-44f8-a407-4de030061f7d"
SYSTEM = Content(None, (Part("You write code."),))


def said(*texts: str, role: str = USER) -> Content:
    return Content(role, tuple(map(Part, texts)))


HELLO = GenerateRequest("m", (said("Hello"),), SYSTEM)


def found(
    body: Any = None, session: Session | None = None, chain: str = "", request: Any = HELLO, owner: str = "o"
) -> str:
    return conversation_id(owner, session, body or {}, chain, request)


# --- sessions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "session"),
    [
        ({"X-Claude-Code-Session-Id": UUID}, Session(UUID)),
        (
            {"X-Claude-Code-Session-Id": UUID, "X-Claude-Code-Agent-Id": "ad31"},
            Session(UUID, "ad31"),
        ),
        ({"Session-Id": "s", "Thread-Id": "s"}, Session("s")),  # Codex's own thread
        ({"Session-Id": "s", "Thread-Id": "t"}, Session("s", "t")),  # a thread that Codex has started
        ({"X-Session-Affinity": "s"}, Session("s")),
        ({"X-Session-Id": "s"}, Session("s")),
        ({"X-Claude-Code-Session-Id": "a", "Session-Id": "b"}, Session("a")),
        ({"X-Claude-Code-Session-Id": " ", "Session-Id": "b"}, Session("b")),
        ({"Thread-Id": "t"}, None),
        ({}, None),
    ],
)
def test_the_headers_that_name_a_session(headers: dict[str, str], session: Session | None) -> None:
    assert session_in_headers(headers) == session


def test_a_name_is_printable_and_of_bounded_length() -> None:
    named = session_in_headers({"Session-Id": "a\x1b[31m\r\n ü🙂b" + "c" * 5000, "Thread-Id": "\x00"})
    assert named is not None
    assert named.id.startswith("a[31mbc")
    assert len(named.id) == LONGEST_NAME
    assert named.agent is None


@pytest.mark.parametrize(
    ("user", "session"),
    [
        (f"user_0a1b_account__session_{UUID}", UUID),
        (json.dumps({"device_id": "d", "account_uuid": "", "session_id": UUID}), UUID),
        ("somebody", None),
        ("user_0a1b_session_", None),
        ('{"session_id": ', None),
        ('{"session_id": 7}', None),
        ('["session_id"]', None),
        ("{" * 5000, None),
        (7, None),
        (None, None),
    ],
)
def test_the_session_is_read_from_claudes_metadata(user: Any, session: str | None) -> None:
    assert session_in_metadata({"metadata": {"user_id": user}}) == (session and Session(session))


@given(st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=3))
def test_any_metadata_value_is_accepted(value: Any) -> None:
    session_in_metadata({"metadata": value})
    session_in_metadata({"metadata": {"user_id": value}})
    assert found({"prompt_cache_key": value, "metadata": value})


# --- the order of the sources ------------------------------------------------------------------------


def test_the_most_specific_conversation_id_wins() -> None:
    metadata = {"user_id": f"user_1_session_{UUID}"}
    by_session = found({"prompt_cache_key": "k", "metadata": metadata}, Session("s"), "chain")
    by_key = found({"prompt_cache_key": "k", "metadata": metadata}, None, "chain")
    by_metadata = found({"metadata": metadata}, None, "chain")
    by_chain, by_opening = found(chain="chain"), found()
    assert by_session == digest("o", "session", "s", "")
    assert by_key == digest("o", "prompt_cache_key", "k")
    assert by_chain == "chain"
    assert len({by_session, by_key, by_metadata, by_chain, by_opening}) == 5


def test_a_session_is_the_same_in_header_and_metadata() -> None:
    assert found({"metadata": {"user_id": f"user_1_session_{UUID}"}}) == found(session=Session(UUID))


def test_a_sub_agent_has_its_own_conversation() -> None:
    assert found(session=Session("s", "a")) != found(session=Session("s"))
    assert found(session=Session("s", "a")) != found(session=Session("s", "b"))


def test_two_owners_never_share_a_conversation() -> None:
    for signs in ({"session": Session("s")}, {"body": {"prompt_cache_key": "k"}}, {}):
        assert found(**signs, owner="one") != found(**signs, owner="other")  # type: ignore[arg-type]


def test_digest_parts_are_separated() -> None:
    assert digest("o", "session", "ab", "c") != digest("o", "session", "a", "bc")
    assert digest("o", "session", "a", "") != digest("o", "session", "a")


# --- the opening -------------------------------------------------------------------------------------


def test_a_conversation_that_grows_stays_the_same() -> None:
    more = (said("Hi.", role=MODEL), said("Go on."))
    assert found(request=replace(HELLO, contents=(*HELLO.contents, *more))) == found()


def test_another_instruction_or_another_first_turn_is_another_conversation() -> None:
    assert found(request=replace(HELLO, system=None)) != found()
    assert found(request=replace(HELLO, contents=(said("Good day"),))) != found()


def test_the_whole_first_turn_identifies_a_conversation() -> None:
    """Agents send the same context before the user's first message."""
    context = said("<context>")
    one = replace(HELLO, contents=(context, said("One")))
    other = replace(HELLO, contents=(context, said("Other")))
    assert found(request=one) != found(request=other)


def test_a_leading_model_greeting_is_ignored() -> None:
    greeted = replace(HELLO, contents=(said("How can I help?", role=MODEL), *HELLO.contents))
    assert found(request=greeted) == found()


def test_images_identify_a_conversation_too() -> None:
    def shown(data: str) -> GenerateRequest:
        return replace(HELLO, contents=(Content(USER, (Part(InlineData("image/png", data)),)),))

    assert found(request=shown("AAAA")) != found(request=shown("BBBB"))


def test_an_empty_request_has_a_conversation_too() -> None:
    assert found(request=GenerateRequest("m", ()))


def test_the_conversation_id_is_not_sent_or_compared() -> None:
    told = replace(HELLO, conversation="secret-conversation")
    assert told == HELLO
    assert "secret-conversation" not in str(request_to_json(told))
