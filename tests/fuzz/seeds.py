"""Seeds of the fuzzer: the requests and streams of the test suite, and inputs that once failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
TESTS = FOLDER.parent
#: Inputs that once failed, by target; they must pass from then on.
CRASHES = FOLDER / "crashes"
#: New failures; they are committed only after an analysis.
FOUND = FOLDER / "found"

HEADS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    b"HTTP/1.1 429 Too Many\r\nContent-Length: 5, 5\r\nConnection: close\r\n\r\nhello",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 12\r\n\r\n",
)
FRAMES = (
    b"5\r\nhello\r\n6;why=not\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n",
    b"0005 \r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n",
    b"a\r\n0123456789\r\nB\t;a\r\n01234567890\r\n",
)
EVENTS = (
    b'\xef\xbb\xbfdata: {"a":1}\r\n\r\ndata:{"b":2}\n\n',
    b": hello\nevent: x\ndata: one\ndata: two\n\nid: 7\nretry\n\n",
    b'{\n  "error": {\n\n "code": 500}\n}\ndata: last',
)
#: Dictionary words for the wire targets.
WORDS = (b"HTTP/1.1 200", b"content-length: ", b"transfer-encoding: ", b"chunked", b"data: ", b"0x", b"null")


def of(target: str) -> Iterator[bytes]:
    """The first byte of each seed sets the split, for targets that split their input."""
    kind, _, protocol = target.partition("-")
    yield from (path.read_bytes() for path in sorted((CRASHES / target).glob("*")))
    if kind == "request":
        yield from _requests(protocol)
        return
    plain = {"head": HEADS, "framing": FRAMES, "events": (*EVENTS, *_streams()), "answer": _streams()}
    for data in plain[kind]:
        yield b"\x06" + data


def _requests(protocol: str) -> Iterator[bytes]:
    for path in sorted((TESTS / "requests" / protocol).glob("*/*.json")):
        if path.suffixes == [".json"]:
            yield path.read_bytes()


def _streams() -> list[bytes]:
    """Return recorded streams as the upstream sends them."""
    recorded = sorted((TESTS / "transcripts").glob("*/upstream.jsonl"))
    return [
        b"".join(b"data: %b\r\n\r\n" % line for line in path.read_bytes().split(b"\n") if line)
        for path in recorded
    ]


def words_of(target: str) -> list[bytes]:
    """Return names and short texts that the fuzzer would hardly find by itself."""
    found = {word for data in of(target) for word in re.findall(rb'"[ -!#-\[\]-~]{1,40}"', data)}
    return sorted({*found, *WORDS})
