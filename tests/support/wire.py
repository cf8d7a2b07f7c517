"""A strict parser of HTTP responses: bytes that no head announces are an error."""

from __future__ import annotations

import re
import socket
import ssl
from dataclasses import dataclass

HEAD_END = b"\r\n\r\n"
#: Only HTTP/1.0 and HTTP/1.1 are valid: the bridge and nginx support no other version here.
STATUS_LINE = re.compile(rb"HTTP/1\.[01] [1-5][0-9][0-9] ")
#: The bridge writes chunk sizes without spaces and extensions.
SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
#: Responses with these statuses have no body, whatever their heads say.
BODILESS = (204, 304)


class NotHttp(AssertionError):
    """There are other bytes where a response head must start."""


@dataclass(frozen=True)
class WireAnswer:
    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool  #: the end of the body has arrived


@dataclass(frozen=True)
class _Head:
    status: int
    headers: dict[str, str]
    size: int


def answers_in(data: bytes, *, ended: bool) -> list[WireAnswer]:
    """Return the final responses in order; the last may be incomplete. `ended`: no bytes will follow."""
    answers: list[WireAnswer] = []
    while head := _head(data):
        data = data[head.size :]
        if head.status < 200:
            continue
        body, used, whole = _body(head, data, ended)
        answers.append(WireAnswer(head.status, head.headers, body, whole))
        data = data[used:]
        if not whole:
            return answers
    if data and ended:
        raise NotHttp(data[:200])
    return answers


def _head(data: bytes) -> _Head | None:
    if data and not data.startswith(b"HTTP/1."[: len(data)]):
        raise NotHttp(data[:200])
    head, end, _ = data.partition(HEAD_END)
    if not end:
        return None
    if not STATUS_LINE.match(head):
        raise NotHttp(head)
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in fields}
    return _Head(int(first.split(" ")[1]), headers, len(head) + len(end))


def _body(head: _Head, data: bytes, ended: bool) -> tuple[bytes, int, bool]:
    """Return the body, its length on the wire, and whether it is complete."""
    if head.status in BODILESS:
        return b"", 0, True
    if head.headers.get("transfer-encoding") == "chunked":
        return _chunked_body(data)
    length = head.headers.get("content-length")
    if length is None:
        return data, len(data), ended
    return data[: int(length)], min(int(length), len(data)), len(data) >= int(length)


def _chunked_body(data: bytes) -> tuple[bytes, int, bool]:
    body, at = b"", 0
    while size := SIZE_LINE.match(data, at):
        length = int(size[1], 16)
        end = size.end() + length
        if data[end : end + 2] not in (b"", b"\r", b"\r\n"):
            raise NotHttp(data[at : end + 100])
        if len(data) < end + 2:
            break
        body, at = body + data[size.end() : end], end + 2
        if not length:
            return body, at, True
    if size is None and b"\r\n" in data[at:]:
        raise NotHttp(data[at : at + 200])
    return body, len(data), False


def read_answers(client: socket.socket, wanted: int) -> tuple[list[WireAnswer], bool]:
    """Read until `wanted` responses are complete or the connection ends; return both facts."""
    data, ended = b"", False
    while not ended:
        answers = answers_in(data, ended=False)
        if sum(answer.whole for answer in answers) >= wanted:
            return answers, False
        piece = received(client)
        data, ended = data + piece, not piece
    return answers_in(data, ended=True), True


def received(client: socket.socket) -> bytes:
    """Receive bytes; return none if the other end has closed or reset the connection."""
    try:
        return client.recv(65536)
    except (ConnectionError, ssl.SSLError):
        return b""
