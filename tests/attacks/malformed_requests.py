"""Requests as bytes, each malformed in one way, with the responses that are allowed.

`%KEY%` stands for the attacker's key, and is in no body. All bytes that could be mistaken for another request
are `SMUGGLED`, which holds a valid key: it would be served if a server parsed it as a request.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

MODEL_THAT_NOBODY_ASKS = "gemini-smuggled"
NOT_SENT = "not sent"  #: not sent through nginx
SMUGGLED_ID = "smuggled"

CHAT = b"/v1/chat/completions"
HELLO = json.dumps({"model": "gemini-honest", "messages": [{"role": "user", "content": "Hello"}]}).encode()
#: It has the length of a real key, so that the lengths below are right.
GOOD_KEY = b"%GOOD-KEY".ljust(42, b"%")
HOST = b"Host: localhost"
KEY = b"Authorization: Bearer %KEY%"
JSON = b"Content-Type: application/json"
CHUNKED = b"Transfer-Encoding: chunked"
LAST_CHUNK = b"0\r\n\r\n"


def lines(*each: bytes) -> bytes:
    return b"\r\n".join((*each, b"", b""))


def length(size: int) -> bytes:
    return b"Content-Length: %d" % size


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def post(*headers: bytes, body: bytes = b"") -> bytes:
    return lines(b"POST " + CHAT + b" HTTP/1.1", HOST, KEY, JSON, *headers) + body


def get(target: bytes, *headers: bytes) -> bytes:
    return lines(b"GET " + target + b" HTTP/1.1", HOST, KEY, *headers)


def _smuggled() -> bytes:
    body = b'{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}'
    return (
        lines(
            b"POST /v1beta/models/%b:generateContent HTTP/1.1" % MODEL_THAT_NOBODY_ASKS.encode(),
            HOST,
            b"x-goog-api-key: " + GOOD_KEY,
            b"X-Request-Id: " + SMUGGLED_ID.encode(),
            length(len(body)),
        )
        + body
    )


SMUGGLED = _smuggled()
GOOD = post(length(len(HELLO)), body=HELLO)
GOOD_CHUNKED = post(CHUNKED, body=chunk(HELLO) + LAST_CHUNK)
NOTHING_THERE = get(b"/v1/nothing")
#: The end of a chunked body, followed by bytes that must not be parsed as a request.
END_AND_MORE = LAST_CHUNK + SMUGGLED


@dataclass(frozen=True)
class Case:
    """`direct` and `nginx` are the allowed statuses of each response in order: `200 400|none` means that the
    first request is served, and the second is refused or gets no response."""

    name: str
    wire: bytes
    direct: str
    nginx: str = ""  #: if different from `direct`
    ends: bool = False  #: the client closes its side after the request
    open_to_all: bool = False  #: the route needs no key

    @property
    def wanted(self) -> int:
        """Return the allowed responses; the connection may end earlier."""
        return len(self.direct.split())

    def allowed(self, *, nginx: bool) -> list[set[str]]:
        return [set(each.split("|")) for each in ((nginx and self.nginx) or self.direct).split()]


def two_readings(header: bytes, *more: bytes) -> bytes:
    """A length and chunks: by the chunks, another request follows; by the length, it is part of the body."""
    return post(length(len(END_AND_MORE)), header, *more, body=END_AND_MORE)


def with_length(value: bytes, body: bytes = HELLO) -> bytes:
    return post(b"Content-Length: " + value, body=body)


def with_chunks(body: bytes) -> bytes:
    return post(CHUNKED, body=body)


LENGTH_AND_CHUNKS = [
    Case("a length before chunks", two_readings(CHUNKED), "400"),
    Case("chunks before a length", post(CHUNKED, length(4), body=chunk(SMUGGLED) + LAST_CHUNK), "400"),
    Case("a length of zero and chunks", post(length(0), CHUNKED, body=END_AND_MORE), "400"),
    Case("chunks in other letters", two_readings(b"tRANSFER-eNCODING: CHUNKED"), "400"),
    Case("a tab before chunked", two_readings(b"Transfer-Encoding:\tchunked"), "400", "400|501"),
    Case("a blank behind chunked", two_readings(b"Transfer-Encoding: chunked "), "400"),
    Case("a vertical tab before chunked", two_readings(b"Transfer-Encoding: \x0bchunked"), "400|501"),
    Case("a blank before the colon", two_readings(b"Transfer-Encoding : chunked"), "400"),
    Case("a tab before the colon", two_readings(b"Transfer-Encoding\t: chunked"), "400"),
    Case("a blank before the name", two_readings(b" Transfer-Encoding: chunked"), "400"),
    Case("chunked on a folded line", two_readings(b"Transfer-Encoding:\r\n chunked"), "400|501"),
    Case("a fold behind chunked", two_readings(b"Transfer-Encoding: chunked\r\n\t, identity"), "400|501"),
    Case("an underscore for the dash", two_readings(b"Transfer_Encoding: chunked"), "400", "400|404"),
    Case("a quoted coding", two_readings(b'Transfer-Encoding: "chunked"'), "400|501"),
    Case("chunks by a bare LF", two_readings(b"X: 1\nTransfer-Encoding: chunked"), "400"),
    Case("chunks by a bare CR", two_readings(b"X: 1\rTransfer-Encoding: chunked"), "400"),
    Case("chunks behind a NUL", two_readings(b"X: 1\x00\r\nTransfer-Encoding: chunked"), "400"),
]

CODINGS = [
    Case(
        "chunked, then identity", post(b"Transfer-Encoding: chunked, identity", body=END_AND_MORE), "400|501"
    ),
    Case(
        "identity, then chunked",
        post(b"Transfer-Encoding: identity, chunked", body=chunk(HELLO) + LAST_CHUNK),
        "200|400|501",
    ),
    Case("identity alone", post(b"Transfer-Encoding: identity", body=END_AND_MORE), "400|501"),
    Case("chunked twice in one", post(b"Transfer-Encoding: chunked, chunked", body=END_AND_MORE), "400|501"),
    Case("chunked twice", post(CHUNKED, CHUNKED, body=END_AND_MORE), "400|501"),
    Case("chunked and another", post(CHUNKED, b"Transfer-Encoding: x", body=END_AND_MORE), "400|501"),
    Case("xchunked", post(b"Transfer-Encoding: xchunked", body=END_AND_MORE), "501"),
    Case("chunkedx", post(b"Transfer-Encoding: chunkedx", body=END_AND_MORE), "501"),
    Case("no coding", post(b"Transfer-Encoding:", body=END_AND_MORE), "400|501"),
    Case("a comma before chunked", post(b"Transfer-Encoding: ,chunked", body=END_AND_MORE), "400|501"),
    Case("a parameter of chunked", post(b"Transfer-Encoding: chunked;q=1", body=END_AND_MORE), "400|501"),
    Case("gzip alone", post(b"Transfer-Encoding: gzip", body=END_AND_MORE), "400|501"),
    Case("chunked, then gzip", post(b"Transfer-Encoding: chunked, gzip", body=END_AND_MORE), "400|501"),
    Case("gzip, then chunked", post(b"Transfer-Encoding: gzip, chunked", body=END_AND_MORE), "400|501"),
    Case(
        "chunks in HTTP/1.0",
        lines(b"POST " + CHAT + b" HTTP/1.0", HOST, KEY, CHUNKED, b"Connection: keep-alive") + END_AND_MORE,
        "400",
        "400|501",
    ),
]

LENGTHS = [
    Case("two lengths", post(length(len(HELLO)), length(0), body=HELLO + SMUGGLED), "400"),
    Case("two lengths, the other first", post(length(0), length(len(HELLO)), body=HELLO), "400"),
    Case("one length twice", post(length(len(HELLO)), length(len(HELLO)), body=HELLO), "400"),
    Case("two lengths in one", with_length(b"%d, 0" % len(HELLO), HELLO + SMUGGLED), "400"),
    Case("one length twice in one", with_length(b"%d, %d" % (len(HELLO), len(HELLO))), "400"),
    Case("a length with a plus", with_length(b"+%d" % len(HELLO)), "400"),
    Case("a length below zero", with_length(b"-1", SMUGGLED), "400"),
    Case("a length below zero, of zero", with_length(b"-0", SMUGGLED), "400"),
    Case("a hexadecimal length", with_length(b"0x%x" % len(HELLO)), "400"),
    Case("a length with a fraction", with_length(b"%d.0" % len(HELLO)), "400"),
    Case("a length with an exponent", with_length(b"1e2"), "400"),
    Case("a length with an underscore", with_length(b"1_0"), "400"),
    Case("a length with a blank inside", with_length(b"1 0"), "400"),
    Case("a length in other digits", with_length("٣".encode()), "400"),
    Case("a length of a superscript", with_length(b"\xb2"), "400"),
    Case("an empty length", with_length(b"", SMUGGLED), "400"),
    Case("a length beyond 64 bits", with_length(b"18446744073709551617"), "413", "400|413", ends=True),
    Case("a length of 5000 digits", with_length(b"9" * 5000), "400"),
    Case("a length that nobody takes", with_length(b"99999999999"), "413", ends=True),
    Case("a length with zeros before it", with_length(b"000%d" % len(HELLO)), "200|400"),
    Case("a length before blanks", with_length(b"%d  \t" % len(HELLO)), "200|400"),
    Case("a length on a folded line", post(b"Content-Length:\r\n %d" % len(HELLO), body=HELLO), "400"),
    Case("a blank behind the length's name", post(b"Content-Length : 5", body=HELLO), "400"),
    Case("a length by an underscore", post(b"Content_Length: 5", body=HELLO + b"\r\n\r\n"), "400 400"),
]

CHUNKS = [
    Case("a size that is no number", with_chunks(b"zz\r\n{}\r\n" + END_AND_MORE), "400"),
    Case("a size with 0x", with_chunks(b"0x2\r\n{}\r\n" + END_AND_MORE), "400"),
    Case("a size with a plus", with_chunks(b"+2\r\n{}\r\n" + END_AND_MORE), "400"),
    Case("a size below zero", with_chunks(b"-2\r\n{}\r\n" + END_AND_MORE), "400"),
    Case("a size with an underscore", with_chunks(b"0_2\r\n{}\r\n" + END_AND_MORE), "400"),
    Case("a blank before the size", with_chunks(b" 2\r\n{}\r\n" + END_AND_MORE), "400"),
    Case("a blank behind the size", with_chunks(b"2 \r\n{}\r\n" + LAST_CHUNK), "400", "400"),
    Case("an empty size", with_chunks(b"\r\n{}\r\n" + END_AND_MORE), "400"),
    Case("a size of 64 bits", with_chunks(b"ffffffffffffffff\r\n{}\r\n" + END_AND_MORE), "400", ends=True),
    Case(
        "a size beyond 64 bits", with_chunks(b"10000000000000002\r\n{}\r\n" + END_AND_MORE), "400", ends=True
    ),
    Case("a size without an end", with_chunks(b"2" * 70_000), "400"),
    Case("an extension", with_chunks(b"%x;a=b\r\n%b\r\n" % (len(HELLO), HELLO) + LAST_CHUNK), "200"),
    Case(
        "a quoted extension", with_chunks(b'%x;a="b;c"\r\n%b\r\n' % (len(HELLO), HELLO) + LAST_CHUNK), "200"
    ),
    Case("an extension with a bare LF", with_chunks(b"2;a\nb\r\n{}\r\n" + END_AND_MORE), "400"),
    Case("an extension with a bare CR", with_chunks(b"2;a\rb\r\n{}\r\n" + END_AND_MORE), "400"),
    Case("an extension without an end", with_chunks(b"2;" + b"a" * 70_000), "400", "400|none", ends=True),
    Case("a size that ends with a bare LF", with_chunks(b"2\n{}\r\n" + LAST_CHUNK), "400", "400"),
    Case("a size that ends with a bare CR", with_chunks(b"2\r{}\r\n" + END_AND_MORE), "400"),
    Case("no line end behind a chunk", with_chunks(b"2\r\n{}" + END_AND_MORE), "400"),
    Case("a bare LF behind a chunk", with_chunks(b"2\r\n{}\n" + LAST_CHUNK), "400", "400"),
    Case("a chunk longer than its size", with_chunks(b"2\r\n{}{}\r\n" + END_AND_MORE), "400"),
    Case(
        "a chunk shorter than its size",
        with_chunks(b"ff\r\n{}\r\n" + LAST_CHUNK),
        "400",
        "400|none",
        ends=True,
    ),
    Case("no last chunk", with_chunks(chunk(HELLO)), "400", "400|none", ends=True),
    Case(
        "the last chunk without its end", with_chunks(chunk(HELLO) + b"0\r\n"), "400", "400|none", ends=True
    ),
    Case("a body that holds a request", with_chunks(chunk(SMUGGLED) + LAST_CHUNK), "400"),
]
