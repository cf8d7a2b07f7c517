"""The head of an HTTP/1.1 answer: its status, where its body ends, whether another answer may follow. No IO.

It is read here and not by `http.client`, which reads it as an e-mail's and takes a tenth of a short call for
it. Only what the bridge goes by is looked for.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bridge.upstream.transport.body_framing import Chunked, Framing, Sized, UntilTheEnd

#: Whoever writes no version that we know may mean anything by what follows.
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})[ \r]")
_FIELDS = re.compile(
    rb"\n(transfer-encoding|content-length|content-encoding|connection)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE
)
_LENGTH = re.compile(rb"[0-9]{1,18}")
BODILESS = frozenset({204, 304})


class BadHead(ValueError):
    """Not the head of an HTTP/1.1 answer, or one whose body has no certain end."""


class Head(NamedTuple):
    status: int
    lasting: bool  #: the connection stays open behind the answer
    framing: Framing
    encoding: bytes  #: how the body is compressed


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


def _framing(fields: dict[bytes, list[bytes]]) -> Framing:
    codings, lengths = fields.get(b"transfer-encoding"), fields.get(b"content-length")
    if codings is not None:  # a length beside it does not count
        return Chunked() if codings[-1] == b"chunked" else UntilTheEnd()
    if lengths is None:
        return UntilTheEnd()
    # Some proxies say the same length twice; two lengths are none.
    if len(set(lengths)) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise BadHead("a length that is none")
    return Sized(int(lengths[0]))
