"""Malformed trailers, heads, request lines and targets, and bytes that follow on the same connection."""

from __future__ import annotations

from tests.attacks.malformed_requests import (
    CHAT,
    CHUNKED,
    CHUNKS,
    CODINGS,
    END_AND_MORE,
    GOOD,
    GOOD_CHUNKED,
    GOOD_KEY,
    HELLO,
    HOST,
    JSON,
    KEY,
    LAST_CHUNK,
    LENGTH_AND_CHUNKS,
    LENGTHS,
    NOT_SENT,
    NOTHING_THERE,
    SMUGGLED,
    Case,
    chunk,
    get,
    length,
    lines,
    post,
    with_length,
)


def with_trailer(*trailers: bytes) -> bytes:
    return post(CHUNKED, body=chunk(HELLO) + b"0\r\n" + lines(*trailers))


def with_header(*headers: bytes) -> bytes:
    return get(b"/v1/nothing", *headers)


def with_line(line: bytes) -> bytes:
    return lines(line, HOST, KEY)


def for_host(*hosts: bytes) -> bytes:
    return lines(b"GET /v1/nothing HTTP/1.1", *hosts, KEY)


def wishing(*headers: bytes) -> bytes:
    return post(length(len(HELLO)), *headers, body=HELLO)


#: nginx drops trailers, so they cannot reach the bridge.
TRAILERS = [
    Case("a harmless trailer", with_trailer(b"X-Sum: 1"), "200"),
    Case("a trailer of a length", with_trailer(length(len(SMUGGLED))), "400", "200|400"),
    Case("a trailer of a key", with_trailer(b"Authorization: Bearer " + GOOD_KEY), "400", "200|400"),
    Case("a trailer of chunks", with_trailer(CHUNKED), "400", "200|400"),
    Case("a trailer of a host", with_trailer(b"Host: elsewhere"), "400", "200|400"),
    Case("a trailer without a name", with_trailer(b": 1"), "400", "200|400"),
    Case("a trailer with a NUL", with_trailer(b"X: \x00"), "400", "200|400"),
    Case(
        "trailers without an end",
        post(CHUNKED, body=b"0\r\n" + b"X: 1\r\n" * 9000),
        "400",
        "400|none",
        ends=True,
    ),
]

HEADS = [
    Case("a head of bare LFs", with_header().replace(b"\r\n", b"\n"), "400", "404"),
    Case("a head of bare CRs", with_header().replace(b"\r\n", b"\r"), "400|none", ends=True),
    Case("one bare LF", with_header(b"X: 1\nY: 2"), "400", "400|404"),
    Case("one bare CR", with_header(b"X: 1\rY: 2"), "400"),
    Case("a bare CR at the end", with_header(b"X: 1\r"), "400", "400|404"),
    Case("a NUL in a value", with_header(b"X: a\x00b"), "400"),
    Case("a NUL in a name", with_header(b"X\x00: a"), "400"),
    Case("a control character in a value", with_header(b"X: a\x01b"), "400", "400|404"),
    Case("a DEL in a value", with_header(b"X: a\x7fb"), "400", "400|404"),
    Case("a name that is not ASCII", with_header("Ünicode: a".encode()), "400", "400|404"),
    Case("a name that becomes ASCII", with_header(b"ho\xdft: a"), "400", "400|404"),
    Case("a value that is not ASCII", with_header("X: ü".encode()), "404"),
    Case("a blank before a colon", with_header(b"X : a"), "400", "400|404"),
    Case("a header without a colon", with_header(b"nothing"), "400", "400|404"),
    Case("a header without a name", with_header(b": nothing"), "400"),
    Case("a folded header", with_header(b"X: a\r\n b"), "400", "400|404"),
    Case("a fold before any header", lines(b"GET /v1/nothing HTTP/1.1", b" X: a", HOST, KEY), "400"),
    Case("a header of a megabyte", with_header(b"X: " + b"a" * 1_000_000), "400|431|none"),
    Case("a header of 9000 bytes", with_header(b"X: " + b"a" * 9_000), "400|431|none"),
    Case("1000 headers", with_header(*(b"X-%d: 1" % each for each in range(1000))), "431", "400|431"),
    Case("a head without an end", b"GET /v1/nothing HTTP/1.1\r\nHost: a\r\n", "none|400", ends=True),
    Case("two keys", with_header(b"Authorization: Bearer " + GOOD_KEY), "400|401|404"),
    Case("two types of content", post(JSON, length(len(HELLO)), body=HELLO), "400", "200|400"),
]

HOSTS = [
    Case("no host", for_host(), "400|404", "400"),
    Case("two hosts", for_host(HOST, b"Host: elsewhere"), "400"),
    Case("one host twice", for_host(HOST, HOST), "400"),
    Case("a host with a path", for_host(b"Host: a/../b"), "400|404"),
    Case("a host with a blank", for_host(b"Host: a b"), "400|404"),
    Case("a host with a tab", for_host(b"Host: a\tb"), "400|404"),
    Case("an empty host", for_host(b"Host:"), "400|404"),
    Case("a host with a user", for_host(b"Host: a@b:99999"), "400|404"),
    Case("a claim of another host", with_header(b"X-Forwarded-Host: elsewhere"), "404"),
    Case("two schemes", with_header(b"X-Forwarded-Proto: https", b"X-Forwarded-Ssl: off"), "400|404"),
]

LINES = [
    Case("HTTP/0.9", b"GET /v1/nothing\r\n\r\n", "400", NOT_SENT),  # nginx responds without a head
    Case("HTTP/0.9 with a version", with_line(b"GET /v1/nothing HTTP/0.9"), "400"),
    Case("HTTP/1.9", with_line(b"GET /v1/nothing HTTP/1.9"), "404", "400|404"),
    Case("HTTP/2.0", with_line(b"GET /v1/nothing HTTP/2.0"), "400", "400|505"),
    Case("HTTP/1.10", with_line(b"GET /v1/nothing HTTP/1.10"), "400", "400|404"),
    Case("HTTP/1", with_line(b"GET /v1/nothing HTTP/1"), "400"),
    Case("HTTP/01.1", with_line(b"GET /v1/nothing HTTP/01.1"), "400"),
    Case("http/1.1", with_line(b"GET /v1/nothing http/1.1"), "400"),
    Case("another protocol", with_line(b"GET /v1/nothing ICAP/1.0"), "400"),
    Case("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), "400", "400|405|none"),
    Case("TLS inside", b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(200), "400|none", ends=True),
    Case("the PROXY protocol", b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + NOTHING_THERE, "400"),
    Case("an unknown method", with_line(b"STEAL /v1/nothing HTTP/1.1"), "404|405"),
    Case("a method in small letters", with_line(b"get /v1/nothing HTTP/1.1"), "400"),
    Case("a method of one letter", with_line(b"G /v1/nothing HTTP/1.1"), "400", "400|404"),
    Case("a method with odd letters", with_line(b"GE(T /v1/nothing HTTP/1.1"), "400"),
    Case("TRACE", with_line(b"TRACE / HTTP/1.1"), "404|405"),
    Case("CONNECT", with_line(b"CONNECT elsewhere:443 HTTP/1.1"), "400|404|405"),
    Case("CONNECT and more", with_line(b"CONNECT elsewhere:443 HTTP/1.1") + SMUGGLED, "400|404|405"),
    Case("two blanks in the line", with_line(b"GET  /v1/nothing HTTP/1.1"), "400", "400|404"),
    Case("a tab in the line", with_line(b"GET\t/v1/nothing\tHTTP/1.1"), "400"),
    Case("a blank behind the line", with_line(b"GET /v1/nothing HTTP/1.1 "), "400", "400|404"),
    Case("a blank in the target", with_line(b"GET /v1/nothing here HTTP/1.1"), "400", "400|404"),
    Case("a line of 100 KB", with_line(b"GET /v1/" + b"a" * 100_000 + b" HTTP/1.1"), "400|414"),
    Case("only line ends", b"\r\n" * 50, "400|none", ends=True),
    Case("nothing but bytes", bytes(range(256)), "400|none", ends=True),
]

TARGETS = [
    Case("another host's address", get(b"http://elsewhere.invalid/v1/nothing"), "404"),
    Case("another scheme's address", get(b"gopher://elsewhere.invalid/v1/nothing"), "400|404"),
    Case("an address with a user", get(b"http://a:b@elsewhere.invalid/v1/nothing"), "404", "400|404"),
    Case("an address without a host", get(b"http:///v1/nothing"), "400|404"),
    Case("no slash", get(b"v1/nothing"), "400"),
    Case("a star", get(b"*"), "400"),
    Case("an empty target", with_line(b"GET  HTTP/1.1"), "400"),
    Case("two slashes", get(b"//v1/nothing"), "308|400|404"),
    Case("two slashes inside", get(b"/v1//nothing"), "308|400|404"),
    Case("two slashes and a host", get(b"//elsewhere.invalid/v1/nothing"), "400|404"),
    Case("dots", get(b"/v1/../../../etc/passwd"), "400|404"),
    Case("dots from a page without a key", get(b"/healthz/../v1/nothing"), "404"),
    Case("dots to a page without a key", get(b"/v1/nothing/../../healthz"), "404"),
    Case("encoded dots", get(b"/v1/%2e%2e/%2e%2e/etc/passwd"), "400|404"),
    Case("encoded slashes", get(b"/v1%2fnothing"), "404"),
    Case("slashes encoded twice", get(b"/v1%252fnothing"), "404"),
    Case("backslashes", get(b"/v1\\..\\..\\etc\\passwd"), "400|404"),
    Case("overlong dots", get(b"/v1/%c0%ae%c0%ae/nothing"), "400|404"),
    Case("an encoded NUL", get(b"/v1/nothing%00.json"), "400|404"),
    Case("an encoded line end", get(b"/v1/nothing%0d%0aX-Injected:%201"), "400|404"),
    Case("half an escape", get(b"/v1/nothing%"), "400|404"),
    Case("an escape of no number", get(b"/v1/nothing%zz"), "400|404"),
    Case("a target that is not ASCII", get("/v1/nöthing".encode()), "400", "400|404"),
    Case("a fragment", get(b"/v1/nothing#here"), "400|404"),
    Case("a path's parameter", get(b"/healthz;/v1/nothing"), "404"),
    Case("a model that climbs", get(b"/v1/models/..%2f..%2fsecret"), "400|404"),
    Case("a query of 7000 bytes", get(b"/v1/nothing?a=" + b"b" * 7000), "414", "404|414"),
]

#: The bridge ignores an unknown upgrade; the next bytes are still HTTP/1.1.
UPGRADE_TO_HTTP2 = (
    b"Connection: Upgrade, HTTP2-Settings",
    b"Upgrade: h2c",
    b"HTTP2-Settings: AAMAAABk",
)
IN_HTTP_1_0 = lines(b"POST " + CHAT + b" HTTP/1.0", HOST, KEY, length(len(HELLO)), b"Expect: 100-continue")
WISHES = [
    Case("a web socket", get(b"/v1/responses", b"Connection: Upgrade", b"Upgrade: websocket"), "404|405|426"),
    Case("HTTP/2 without TLS", with_header(*UPGRADE_TO_HTTP2), "404"),
    Case("a connection of headers", with_header(b"Connection: authorization, host, close"), "404"),
    Case("to go on", wishing(b"Expect: 100-continue"), "200"),
    Case("to go on, in other letters", wishing(b"Expect: 100-Continue"), "200"),
    Case("to go on, without a body", with_header(b"Expect: 100-continue"), "404"),
    Case("to go on, in HTTP/1.0", IN_HTTP_1_0 + HELLO, "200"),
    Case("another wish", wishing(b"Expect: 200-ok"), "417", "200|417"),
    Case("two wishes", wishing(b"Expect: 100-continue, x"), "417", "200|417"),
    Case("a packed body", wishing(b"Content-Encoding: gzip"), "400"),
    Case("another method by a header", with_header(b"X-HTTP-Method-Override: DELETE"), "404"),
]

FOLLOWING = [
    Case("two that are good", GOOD + GOOD_CHUNKED, "200 200"),
    Case("a good one, then two readings", GOOD + post(length(3), CHUNKED, body=END_AND_MORE), "200 400"),
    Case("a good one, then garbage", GOOD + b"\x00\x01\x02\r\n\r\n" + SMUGGLED, "200 400"),
    Case("a good one, then a bad size", GOOD_CHUNKED + post(CHUNKED, body=b"g\r\n" + SMUGGLED), "200 400"),
    Case("an unknown page, then a bad length", NOTHING_THERE + with_length(b"+1", SMUGGLED), "404 400"),
    Case("a refusal, then one that is good", NOTHING_THERE + GOOD, "404 200"),
    Case("a body on a GET", with_header(length(len(SMUGGLED))) + SMUGGLED, "404"),
    Case("chunks on a GET", with_header(CHUNKED) + chunk(SMUGGLED) + LAST_CHUNK, "404"),
    Case(
        "a body on a page without a key",
        lines(b"GET /healthz HTTP/1.1", HOST, length(len(SMUGGLED))) + SMUGGLED,
        "200",
        open_to_all=True,
    ),
    Case("a body shorter than promised", with_length(b"1000"), "400", "400|none", ends=True),
    Case("a body longer than promised", GOOD + b"{}" + SMUGGLED, "200 400"),
    Case("a closed connection", wishing(b"Connection: close") + SMUGGLED, "200"),
    Case("a body that is a request", with_length(b"%d" % len(SMUGGLED), SMUGGLED), "400"),
    Case(
        "a body that nobody reads", post(length(len(SMUGGLED)), b"Content-Encoding: br", body=SMUGGLED), "400"
    ),
    Case("behind an answer in HTTP/1.0", lines(b"GET /v1/nothing HTTP/1.0", HOST, KEY) + SMUGGLED, "404"),
]

CORPUS = [
    *LENGTH_AND_CHUNKS,
    *CODINGS,
    *LENGTHS,
    *CHUNKS,
    *TRAILERS,
    *HEADS,
    *HOSTS,
    *LINES,
    *TARGETS,
    *WISHES,
    *FOLLOWING,
]
