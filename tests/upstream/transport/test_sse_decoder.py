"""Every case is fed whole, byte by byte and at every two-way split, with the same result."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import UpstreamMalformed
from bridge.upstream.transport.sse_decoder import SseDecoder

ERROR = b'{\n  "error": {\n    "code": 503,\n    "status": "UNAVAILABLE"\n  }\n}'

CASES: dict[str, tuple[bytes, list[bytes]]] = {
    "nothing": (b"", []),
    "one event": (b'data: {"a":1}\n\n', [b'{"a":1}']),
    "carriage returns": (b"data: {}\r\n\r\ndata: []\r\n\r\n", [b"{}", b"[]"]),
    "only one carriage return is framing": (b"data: x\r\r\n\r\n", [b"x\r"]),
    "several data lines": (b"data: {\ndata: }\n\n", [b"{\n}"]),
    "no space after the colon": (b"data:{}\n\n", [b"{}"]),
    "only one space is framing": (b"data:   {}\n\n", [b"  {}"]),
    "colons in the value": (b'data: {"a":"b:c"}\n\n', [b'{"a":"b:c"}']),
    "comments and other fields": (b": hello\nevent: x\nid: 7\nretry: 10\nid\ndata: {}\n\n", [b"{}"]),
    "empty events": (b"\n\ndata:\n\ndata\n\ndata: \n\n: ping\n\n", []),
    "byte order mark": (b"\xef\xbb\xbfdata: {}\n\n", [b"{}"]),
    "byte order mark before JSON": (b"\xef\xbb\xbf{}", [b"{}"]),
    "open at the end": (b"data: {}\n\ndata: [", [b"{}", b"["]),
    "open at the end after its line": (b"data: {}\n", [b"{}"]),
    "open at the end before the line feed": (b"data: {}\r", [b"{}"]),
    "half a character at the end": (b"data: \xc3", [b"\xc3"]),
    "many-byte characters": ("data: 日本 é 🎈\n\n".encode(), ["日本 é 🎈".encode()]),
    "separators that text readers split at": (
        "data: a\u2028b\u2029c\u0085d\x0be\x0cf\rg\n\n".encode(),
        ["a\u2028b\u2029c\u0085d\x0be\x0cf\rg".encode()],
    ),
    "bare error after events": (b"data: {}\r\n\r\n" + ERROR + b"\n", [b"{}", ERROR]),
    "bare error after an event still open": (b"data: {}\n" + ERROR, [b"{}", ERROR]),
    "bare error with carriage returns": (ERROR.replace(b"\n", b"\r\n"), [ERROR]),
    "events after a bare error": (ERROR + b"\n\ndata: {}\n\n", [ERROR, b"{}"]),
    "bare array": (b'[{\n  "a": 1\n}\n,\r\n{"b": 2}]\n', [b'[{\n  "a": 1\n}\n,\n{"b": 2}]']),
    "bare object with a blank line": (b'{\n\n"a": 1}', [b'{\n"a": 1}']),
    "bare lines around a comment": (b"{\n: ping\n}\n", [b"{\n}"]),
    "a page": (b"<html>\n<p>busy</p>\n", [b"<html>\n<p>busy</p>"]),
}


def payloads_of(reads: Iterable[bytes]) -> list[bytes]:
    decoder = SseDecoder()
    found = [payload for read in reads for payload in decoder.feed(read)]
    return found + decoder.finish()


@pytest.mark.parametrize(("body", "expected"), CASES.values(), ids=CASES)
class TestEveryCase:
    def test_the_payloads_are_decoded_from_a_whole_body(self, body: bytes, expected: list[bytes]) -> None:
        assert payloads_of([body]) == expected

    def test_the_payloads_are_decoded_byte_by_byte(self, body: bytes, expected: list[bytes]) -> None:
        assert payloads_of(bytes([byte]) for byte in body) == expected

    def test_the_payloads_are_decoded_at_every_split(self, body: bytes, expected: list[bytes]) -> None:
        for cut in range(len(body) + 1):
            assert payloads_of([body[:cut], body[cut:]]) == expected


FRAGMENTS = [b"data:", b"data", b" ", b"\n", b"\r\n", b"\r", b"\n\n", b":", b"{", b"}", b"[1]", b"id: 1"]
BODIES = st.lists(
    st.one_of(st.sampled_from([*FRAGMENTS, b"\xef\xbb\xbf", b"\xe2\x80\xa8"]), st.binary(max_size=4))
).map(b"".join)


@given(BODIES, st.lists(st.integers(min_value=0, max_value=200)))
def test_any_split_of_any_body_gives_the_same_payloads(body: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    reads = [body[start:end] for start, end in itertools.pairwise(edges)]
    assert payloads_of(reads) == payloads_of([body])


def test_an_event_is_yielded_as_soon_as_it_ends() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: {}\r\n") == []
    assert decoder.feed(b"\r\ndata: [") == [b"{}"]


def test_events_of_one_read_are_yielded_together_and_in_order() -> None:
    assert SseDecoder().feed(b"data: 1\n\ndata: 2\n\ndata: 3\n\n") == [b"1", b"2", b"3"]


def test_finishing_twice_yields_nothing_more() -> None:
    decoder = SseDecoder()
    decoder.feed(b"data: {}")
    assert decoder.finish() == [b"{}"]
    assert decoder.finish() == []


def seconds_for_an_event_of(size: int) -> float:
    body = memoryview(b"data: " + b"x" * size + b"\n\n")
    decoder = SseDecoder()
    began = time.thread_time()
    found = [
        payload for at in range(0, len(body), 8192) for payload in decoder.feed(bytes(body[at : at + 8192]))
    ]
    assert [len(payload) for payload in found] == [size]
    return time.thread_time() - began


def test_a_huge_event_in_small_reads_is_not_quadratic() -> None:
    # Linear work takes a tenth of a second; joining the buffer at each read would copy 64 GB.
    assert min(seconds_for_an_event_of(32 << 20) for _ in range(2)) < 1.5


def fed_until_it_refuses(block: bytes) -> int:
    """Return the megabytes that were accepted after a complete event."""
    decoder = SseDecoder()
    assert decoder.feed(b"data: {}\n\n") == [b"{}"]
    for megabytes in range(100):
        try:
            assert decoder.feed(block * ((1 << 20) // len(block))) == []
        except UpstreamMalformed:
            return megabytes
    raise AssertionError("it goes on for ever")


@pytest.mark.parametrize("block", [b"a", b"\r", b"data:\n", b": a remark\n", b"a bare line\n", b"event: x\n"])
def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch, block: bytes) -> None:
    monkeypatch.setattr("bridge.upstream.transport.sse_decoder.LARGEST_EVENT", 3 << 20)
    assert fed_until_it_refuses(block) in (2, 3)  # a block is about one megabyte


@pytest.mark.parametrize("block", [b"ab\n", b"data:a\n"])
def test_an_event_of_endless_short_lines_is_refused(monkeypatch: pytest.MonkeyPatch, block: bytes) -> None:
    monkeypatch.setattr("bridge.upstream.transport.sse_decoder.MOST_LINES", 100_000)
    assert fed_until_it_refuses(block) == 0


def test_a_long_answer_of_short_events_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.upstream.transport.sse_decoder.LARGEST_EVENT", 1000)
    decoder = SseDecoder()
    read = [len(decoder.feed(data)) for _ in range(1000) for data in (b"data: 12345", b"6789\r\n\r\n")]
    assert sum(read) == 1000
