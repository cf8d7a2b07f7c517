"""Response heads in the formats of different servers."""

from __future__ import annotations

import pytest

from bridge.upstream.transport.body_framing import Chunked, Sized, UntilClose
from bridge.upstream.transport.response_head import LARGEST_HEAD, BadHead, Head, HeadReader, parse_head

OK = "HTTP/1.1 200 OK"


def head(*lines: str) -> Head:
    return parse_head("\r\n".join([*lines, "", ""]).encode("latin-1"))


@pytest.mark.parametrize(
    "line", ["HTTP/1.1 429 Too Many Requests", "HTTP/1.1 429 ", "HTTP/1.1 429", "HTTP/1.0 429 é"]
)
def test_the_status_is_parsed_with_any_reason_phrase(line: str) -> None:
    assert head(line).status == 429


@pytest.mark.parametrize(
    "line",
    [
        "",
        "HTTP/2 200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000",
        "HTTP/1.1 abc",
        "ICY 200 OK",
        " HTTP/1.1 200 OK",
    ],
)
def test_a_response_without_a_status_line_is_refused(line: str) -> None:
    with pytest.raises(BadHead):
        head(line)


@pytest.mark.parametrize(
    ("lines", "framing"),
    [
        ([], UntilClose),
        (["Transfer-Encoding: chunked"], Chunked),
        (["transfer-encoding:CHUNKED"], Chunked),
        (["Transfer-Encoding: gzip, chunked"], Chunked),
        (["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"], Chunked),
        (["Transfer-Encoding: gzip"], UntilClose),
        (["Content-Length: 5"], Sized),
        (["Content-Length: 5", "Content-Length: 5"], Sized),
        (["Content-Length: 5, 5"], Sized),
        (["Content-Length: 5", "Transfer-Encoding: chunked"], Chunked),
        (["X-Content-Length: 5", "X-Note: content-length: 7"], UntilClose),
    ],
)
def test_the_headers_say_where_the_body_ends(lines: list[str], framing: type) -> None:
    assert type(head(OK, *lines).framing) is framing


def test_a_valid_content_length_is_used() -> None:
    framing = head(OK, "Content-Length:  5 ").framing
    assert framing.feed(b"12345678") == b"12345"
    assert framing.done
    assert not framing.reusable


@pytest.mark.parametrize("length", ["", "-1", "+5", "5 6", "0x5", "5, 6", "five", "9" * 19])
def test_an_invalid_content_length_is_refused(length: str) -> None:
    with pytest.raises(BadHead):
        head(OK, f"Content-Length: {length}")


@pytest.mark.parametrize("status", [204, 304])
def test_some_statuses_have_no_body_whatever_the_headers_say(status: int) -> None:
    assert head(f"HTTP/1.1 {status} x", "Content-Length: 5").framing.done


@pytest.mark.parametrize(
    ("lines", "keep_alive"),
    [
        ([OK], True),
        ([OK, "Connection: keep-alive"], True),
        ([OK, "Connection: close"], False),
        ([OK, "connection: Keep-Alive, Close"], False),
        (["HTTP/1.0 200 OK"], False),
        (["HTTP/1.0 200 OK", "Connection: keep-alive"], True),
        ([OK, "Content-Length: 5", "Transfer-Encoding: chunked"], False),  # two contradictory lengths
        ([OK, "Transfer-Encoding: chunked"], True),
    ],
)
def test_the_head_says_whether_the_connection_stays_open(lines: list[str], keep_alive: bool) -> None:
    assert head(*lines).keep_alive is keep_alive


def test_compression_is_detected_from_the_last_coding() -> None:
    assert head(OK).encoding == b"identity"
    assert head(OK, "Content-Encoding: GZip").encoding == b"gzip"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_head_parses_the_same_at_any_split_and_interim_heads_are_skipped(size: int) -> None:
    data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\n\r\nbody"
    reader = HeadReader()
    for start in range(0, len(data), size):
        if (found := reader.feed(data[start : start + size])) is not None:
            break
    assert found is not None
    assert found.status == 200
    assert b"body".startswith(reader.rest)


def test_an_endless_head_is_refused() -> None:
    reader = HeadReader()
    reader.feed(b"x" * LARGEST_HEAD)
    with pytest.raises(BadHead):
        reader.feed(b"x")
