"""The head of an HTTP/1.1 answer: its status, where its body ends, whether another answer may follow. No IO.

It is read here and not by `http.client`, which reads it as an e-mail's and takes a tenth of a short call for
it. Only what the bridge goes by is looked for.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bridge.upstream.transport.body_framing import BodyFraming, Chunked, Sized, UntilTheEnd

#: Whoever writes no version that we know may mean anything by what follows.
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})[ \r]")
_FIELDS = re.compile(
    rb"\n(transfer-encoding|content-length|content-encoding|connection)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE
)
_LENGTH = re.compile(rb"[0-9]{1,18}")
BODILESS = frozenset({204, 304})
HEAD_END = b"\r\n\r\n"
LARGEST_HEAD = 65_536
#: `100 Continue` and its kin come before the answer and say nothing.
INTERIM = b"HTTP/1.1 1"


class BadHead(ValueError):
    """Not the head of an HTTP/1.1 answer, or one whose body has no certain end."""


class Head(NamedTuple):
    status: int
    lasting: bool  #: the connection stays open behind the answer
    framing: BodyFraming
    encoding: bytes  #: how the body is compressed


class HeadReader:
    """The head out of pieces as they come. Each byte is looked at once, however small the pieces are."""

    def __init__(self) -> None:
        self._come = bytearray()

    @property
    def behind(self) -> bytes:
        """What has come of the body, together with the end of the head."""
        return bytes(self._come)

    def feed(self, data: bytes) -> Head | None:
        """The head, once it is whole."""
        looked = max(0, len(self._come) - len(HEAD_END) + 1)
        self._come += data
        while (end := self._come.find(HEAD_END, looked)) >= 0:
            end += len(HEAD_END)
            head = bytes(self._come[:end])
            del self._come[:end]
            if not head.startswith(INTERIM):
                return head_of(head)
            looked = 0
        if len(self._come) > LARGEST_HEAD:
            raise BadHead("its head has no end")
        return None


def head_of(data: bytes) -> Head:
    """`data` ends with the empty line."""
    found = _STATUS.match(data)
    if found is None:
        raise BadHead("no status line")
    fields: dict[bytes, list[bytes]] = {}
    for name, value in _FIELDS.findall(data):
        fields.setdefault(name.lower(), []).extend(each.strip().lower() for each in value.split(b","))
    wishes, status = fields.get(b"connection", ()), int(found[2])
    # Where an answer has two ends, somebody on the way may go by the other one.
    certain = not (b"transfer-encoding" in fields and b"content-length" in fields)
    return Head(
        status,
        certain and b"close" not in wishes and (found[1] == b"1" or b"keep-alive" in wishes),
        Sized(0) if status in BODILESS else _framing(fields),
        fields.get(b"content-encoding", [b"identity"])[-1],
    )


def _framing(fields: dict[bytes, list[bytes]]) -> BodyFraming:
    codings, lengths = fields.get(b"transfer-encoding"), fields.get(b"content-length")
    if codings is not None:  # a length beside it does not count
        return Chunked() if codings[-1] == b"chunked" else UntilTheEnd()
    if lengths is None:
        return UntilTheEnd()
    # Some proxies say the same length twice; two lengths are none.
    if len(set(lengths)) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise BadHead("a length that is none")
    return Sized(int(lengths[0]))
