"""Upstream bytes on the wire: heads, frames and events, compared with very simple parsers."""

from __future__ import annotations

import re
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from typing import Any

from bridge.upstream.transport.body_framing import LARGEST_TRAILERS, LONGEST_LINE, BadFraming, Chunked, Sized
from bridge.upstream.transport.response_head import HEAD_END, LARGEST_HEAD, BadHead, Head, HeadReader
from bridge.upstream.transport.sse_decoder import BOM, IGNORED_FIELDS, SseDecoder

REFUSED = "refused"


def pieces_of(data: bytes) -> tuple[bytes, list[bytes]]:
    """Split the data; the first byte sets the size of the pieces."""
    size, rest = (data[0] % 40 + 1, data[1:]) if data else (1, b"")
    return rest, [rest[start : start + size] for start in range(0, len(rest), size)]


# --- heads -------------------------------------------------------------------------------------------

#: A conventional head, which both parsers must read alike.
PLAIN_HEAD = re.compile(
    rb"HTTP/1\.[01] [2-5][0-9][0-9] [ -~]*\r\n(?:[A-Za-z][A-Za-z-]*: ?[!-~][ -~]*\r\n)*\r\n"
)


def head(data: bytes) -> None:
    whole, pieces = pieces_of(data)
    one = _head_from([whole])
    assert _shown(_head_from(pieces)) == _shown(one), "the head depends on where it is cut"
    end = whole.find(HEAD_END) + len(HEAD_END)
    if isinstance(one, Head) and PLAIN_HEAD.fullmatch(whole[:end]):
        _compare_with_http_client(one, whole[:end])


def _head_from(pieces: list[bytes]) -> Head | str | None:
    reader = HeadReader()
    try:
        for piece in pieces:
            if (found := reader.feed(piece)) is not None:
                return found
    except BadHead:
        return REFUSED
    assert len(reader.rest) <= LARGEST_HEAD
    return None


def _shown(found: Head | str | None) -> Any:
    """Return a framing in a form that can be compared."""
    if not isinstance(found, Head):
        return found
    missing = found.framing._missing if isinstance(found.framing, Sized) else None
    return found.status, found.keep_alive, found.encoding, type(found.framing), missing


class _Socket:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> BytesIO:
        return BytesIO(self._data)


def _compare_with_http_client(found: Head, data: bytes) -> None:
    names = [line.partition(b":")[0].lower() for line in data.split(b"\r\n")[1:]]
    if any(names.count(name) > 1 for name in names if name) or b"transfer-encoding" in names:
        return  # with several lengths or codings, the two parsers may differ
    response = HTTPResponse(_Socket(data), method="GET")  # type: ignore[arg-type]
    try:
        response.begin()
    except (HTTPException, ValueError):
        return
    assert response.status == found.status
    if isinstance(found.framing, Sized) and response.length is not None:
        assert response.length == found.framing._missing, "another length"


# --- frames ------------------------------------------------------------------------------------------


def framing(data: bytes) -> None:
    whole, pieces = pieces_of(data)
    expected = _unframed(whole)
    assert _fed_frames([whole]) == expected, "another body than the simple reader's"
    assert _fed_frames(pieces) == expected, "the body depends on where it is cut"


def _fed_frames(pieces: list[bytes]) -> tuple[bytes, bool] | str:
    chunked = Chunked()
    try:
        return b"".join([chunked.feed(piece) for piece in pieces]), chunked.done
    except BadFraming:
        return REFUSED


def _unframed(data: bytes) -> tuple[bytes, bool] | str:
    """Parse all bytes at once, as the standard describes it."""
    body, rest = b"", data
    while True:
        line, found, behind = rest.partition(b"\r\n")
        if len(line) - (not found and line.endswith(b"\r")) > LONGEST_LINE:
            return REFUSED
        if not found:
            return body, False
        digits = line.partition(b";")[0].rstrip(b" \t")
        if not digits or digits.strip(b"0123456789abcdefABCDEF"):
            return REFUSED
        length = int(digits, 16)
        if length == 0:
            return _behind_trailers(body, behind)
        body += behind[:length]
        if len(behind) < length + 2:
            return body, False  # one byte of a two-byte line end is not enough to decide
        if behind[length : length + 2] != b"\r\n":
            return REFUSED
        rest = behind[length + 2 :]


def _behind_trailers(body: bytes, rest: bytes) -> tuple[bytes, bool] | str:
    size = 0
    while True:
        line, found, rest = rest.partition(b"\r\n")
        if len(line) - (not found and line.endswith(b"\r")) > LONGEST_LINE:
            return REFUSED
        if not found:
            return body, False
        size += len(line)
        if not line:
            return body, True
        if size > LARGEST_TRAILERS:
            return REFUSED


# --- events ------------------------------------------------------------------------------------------


def events(data: bytes) -> None:
    whole, pieces = pieces_of(data)
    expected = _payloads(whole)
    assert _decoded([whole]) == expected, "other events than the simple reader's"
    assert _decoded(pieces) == expected, "the events depend on where the stream is cut"


def _decoded(pieces: list[bytes]) -> list[bytes]:
    decoder, found = SseDecoder(), []
    for piece in pieces:
        found += decoder.feed(piece)
    return found + decoder.finish()


def _payloads(data: bytes) -> list[bytes]:
    """Parse line by line, without optimisation."""
    found: list[list[bytes]] = []
    said: list[bytes] = []
    bare: list[bytes] = []
    for line in data.removeprefix(BOM).split(b"\n"):
        text = line.removesuffix(b"\r")
        name, _, value = text.partition(b":")
        if name == b"data" and text:
            found, bare = [*found, bare], []
            said.append(value.removeprefix(b" "))
        elif not text:
            found, said = [*found, said], []
        elif name not in IGNORED_FIELDS:
            found, said = [*found, said], []
            bare.append(text)
    payloads = [b"\n".join(lines) for lines in [*found, said, bare]]
    return [payload for payload in payloads if payload.strip()]


TARGETS: dict[str, Callable[[bytes], None]] = {"head": head, "framing": framing, "events": events}
