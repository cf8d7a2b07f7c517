"""Parses the head of an HTTP/1.1 response: its status, body framing, compression and keep-alive. No IO.

`http.client` would parse it with the e-mail parser, which takes a tenth of the time of a short call. Only the
fields that the bridge uses are parsed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bridge.upstream.transport.body_framing import BodyFraming, Chunked, Sized, UntilClose

#: Only HTTP/1.0 and 1.1: another version may use another format.
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})[ \r]")
_FIELDS = re.compile(
    rb"\n(transfer-encoding|content-length|content-encoding|connection|retry-after)[ \t]*:[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
_SECONDS = re.compile(rb"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
BODILESS = frozenset({204, 304})
HEAD_END = b"\r\n\r\n"
LARGEST_HEAD = 65_536
#: Responses such as `100 Continue` come before the final response and are skipped.
INTERIM = b"HTTP/1.1 1"


class BadHead(ValueError):
    """Not the head of an HTTP/1.1 response, or the length of the body is not clear."""


class Head(NamedTuple):
    status: int
    keep_alive: bool  #: the connection stays open after the response
    framing: BodyFraming
    encoding: bytes  #: the Content-Encoding
    retry_after: float | None = None  #: seconds; None also for a date
    data: bytes = b""  #: the whole head

    def field(self, name: str) -> str:
        """A field that only few callers need. Empty if the head has none; the last one of several."""
        pattern = rb"\n" + re.escape(name.encode()) + rb"[ \t]*:[ \t]*([^\r\n]*)"
        found = re.findall(pattern, self.data, re.IGNORECASE)
        return found[-1].strip().decode("latin-1") if found else ""


class HeadReader:
    """Collects the head from pieces; searches each byte only once, even in tiny pieces."""

    def __init__(self) -> None:
        self._received = bytearray()

    @property
    def rest(self) -> bytes:
        """The bytes of the body that arrived together with the end of the head."""
        return bytes(self._received)

    def feed(self, data: bytes) -> Head | None:
        """The head, once it is complete."""
        searched = max(0, len(self._received) - len(HEAD_END) + 1)
        self._received += data
        while (end := self._received.find(HEAD_END, searched)) >= 0:
            end += len(HEAD_END)
            head = bytes(self._received[:end])
            del self._received[:end]
            if not head.startswith(INTERIM):
                return parse_head(head)
            searched = 0
        if len(self._received) > LARGEST_HEAD:
            raise BadHead("the head has no end")
        return None


def parse_head(data: bytes) -> Head:
    """`data` ends with the empty line."""
    found = _STATUS.match(data)
    if found is None:
        raise BadHead("it has no status line")
    fields: dict[bytes, list[bytes]] = {}
    for name, value in _FIELDS.findall(data):
        fields.setdefault(name.lower(), []).extend(each.strip().lower() for each in value.split(b","))
    options, status = fields.get(b"connection", ()), int(found[2])
    # With both fields, a proxy may take another end of the body than the bridge does.
    certain = not (b"transfer-encoding" in fields and b"content-length" in fields)
    return Head(
        status,
        certain and b"close" not in options and (found[1] == b"1" or b"keep-alive" in options),
        Sized(0) if status in BODILESS else _framing(fields),
        fields.get(b"content-encoding", [b"identity"])[-1],
        _seconds(fields.get(b"retry-after", [b""])[0]),
        data,
    )


def _seconds(value: bytes) -> float | None:
    return float(value) if _SECONDS.fullmatch(value) else None


def _framing(fields: dict[bytes, list[bytes]]) -> BodyFraming:
    codings, lengths = fields.get(b"transfer-encoding"), fields.get(b"content-length")
    if codings is not None:  # Content-Length is ignored beside Transfer-Encoding
        return Chunked() if codings[-1] == b"chunked" else UntilClose()
    if lengths is None:
        return UntilClose()
    # Some proxies repeat the same length; different lengths are an error.
    if len(set(lengths)) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise BadHead("its Content-Length is not valid")
    return Sized(int(lengths[0]))
