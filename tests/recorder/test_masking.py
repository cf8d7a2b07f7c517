"""The level `masked`: texts stay, and secrets, addresses, numbers of telephones and media go."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from flights import kept, stage, taped
from scripted_gemini import text_chunk

from bridge.gemini.wire import chunk_from_json
from bridge.recorder.masking import MARK, masked, masked_text

PRIVATE = [
    "AIzaCanary0123456789abcdefghijklmnopqrs",
    "sk-ant-api03-abcdefghijklmnopqrstuvwx",
    "gbk_0123456789abcdefghijABCDEFGHIJ01234567",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "anna.muster+tag@mail.example.co.uk",
    "+49 151 2345 6789",
    "(030) 1234-5678",
    "Bearer abcdefghijklmnopqrst",
    "password=hunter2hunter2",
    "postgresql://user:pa55word@host/db",
]
HARMLESS = [
    "On 2026-11-19 the build 4711 took 350 ms.",
    "See https://example.com/a/b and line 1234 of main.py.",
    "def token(self): return self._token",
    "3.14159 and 1/2 and 10.0.0.1",
]


@pytest.mark.parametrize("private", PRIVATE)
def test_a_private_text_is_masked(private: str) -> None:
    text = masked_text(f"Look: {private} is here")
    assert MARK in text
    assert private not in text
    assert text.startswith("Look: ")
    assert text.endswith(" is here")


@pytest.mark.parametrize("text", HARMLESS)
def test_an_ordinary_text_stays(text: str) -> None:
    assert masked_text(text) == text


def test_fields_are_masked_too_and_media_is_dropped() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo" * 20}}
    value = {"a@example.com": [image, {"image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}
    shown = masked(value)
    assert "iVBORw0KGgo" not in orjson.dumps(shown).decode()
    assert list(shown) == [MARK]
    assert shown[MARK][0]["inlineData"]["mimeType"] == "image/png"


@pytest.mark.parametrize("private", PRIVATE[:8])
def test_a_secret_that_a_stream_cuts_into_pieces_is_masked(private: str) -> None:
    text = f"It is {private} indeed."
    pieces = [text[start : start + 3] for start in range(0, len(text), 3)]
    chunks = [[chunk_from_json(text_chunk(piece))] for piece in pieces]
    events = [[("content", {"choices": [{"index": 0, "delta": {"content": piece}}]})] for piece in pieces]
    lines = kept(taped("masked", {}, chunks=chunks, events=events))
    said = "".join(
        line["chunk"]["candidates"][0]["content"]["parts"][0]["text"] for line in stage(lines, "chunk")
    )
    sent = "".join(line["data"]["choices"][0]["delta"]["content"] for line in stage(lines, "event"))
    assert said == sent
    assert private not in said
    assert said.startswith("It is ")
    assert said.endswith(" indeed.")


def test_masking_changes_no_value_of_the_request_itself() -> None:
    body = {"messages": [{"role": "user", "content": "a@example.com"}]}
    event: dict[str, Any] = {"choices": [{"delta": {"content": "a@example.com"}}]}
    kept(taped("masked", body, events=[[("content", event)]]))
    assert body["messages"][0]["content"] == "a@example.com"
    assert event["choices"][0]["delta"]["content"] == "a@example.com"


@pytest.mark.parametrize("seed", ["a", "1", "1 ", "a.", "a@", "-", "password=", "eyJ", "1-", "x@a."])
def test_masking_takes_time_in_proportion_to_the_text(seed: str) -> None:
    def seconds(length: int) -> float:
        text = seed * (length // len(seed))
        began = time.thread_time()
        masked_text(text)
        return time.thread_time() - began

    seconds(1000)
    assert seconds(400_000) < 40 * max(seconds(20_000), 0.001)


def test_what_the_operator_keeps_secret_is_in_no_level() -> None:
    secret = "an upstream key of no known form"
    for level in ("masked", "full"):
        lines = kept(taped(level, {"messages": [{"content": f"It is {secret}."}]}), secrets=[secret])
        assert secret not in orjson.dumps(lines).decode()


def test_html_is_data_in_every_level() -> None:
    html = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    lines = kept(taped("full", {"messages": [{"role": "user", "content": html}]}))
    assert stage(lines, "client-request")[0]["body"]["messages"][0]["content"] == html
