"""Reads and verifies the answers: only an answer that is right in every character counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import orjson

from bench.load import Answer
from bench.protocols import Protocol, Reading
from bench.script import Script, mark, whole_text


@dataclass(frozen=True, slots=True)
class Checked:
    failure: str | None
    first: float = 0.0  #: seconds until the first text arrived
    lateness: tuple[float, ...] = ()  #: seconds by which each chunk of a paced stream was late


def checked(answer: Answer, protocol: Protocol, script: Script, stream: bool) -> Checked:
    raw = b"".join(answer.pieces)
    failure = answer.failure or _failure(raw, protocol, script, stream)
    if failure:
        return Checked(failure)
    arrivals = list(_arrivals(answer, raw, script.chunks if stream else 1))
    paced = [late - number * script.pause_ms / 1000 for number, late in enumerate(arrivals)]
    return Checked(None, arrivals[0], tuple(paced) if script.pause_ms else ())


def _failure(raw: bytes, protocol: Protocol, script: Script, stream: bool) -> str | None:
    head, _, body = raw.partition(b"\r\n\r\n")
    status = head[9:12].decode()
    if status != "200":
        return f"status {status}: {body[:300].decode(errors='replace')}"
    if b"transfer-encoding: chunked" in head.lower():
        body = b"".join(_frames(body))
    try:
        reading = _read(body, protocol, stream)
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError) as error:
        return f"unreadable: {error!r}"
    if reading.text != whole_text(script.chunks):
        return f"text differs: {len(reading.text)} of {len(whole_text(script.chunks))} characters"
    return None if reading.ended else "no proper end"


def _frames(body: bytes) -> Iterator[bytes]:
    start = 0
    while size := int(body[start : (line := body.index(b"\r\n", start))], 16):
        yield body[line + 2 : line + 2 + size]
        start = line + 2 + size + 2


def _read(body: bytes, protocol: Protocol, stream: bool) -> Reading:
    if not stream:
        return protocol.whole(orjson.loads(body))
    lines = body.replace(b"\r\n", b"\n").split(b"\n")
    return protocol.streamed([line[5:].strip() for line in lines if line.startswith(b"data:")])


def _arrivals(answer: Answer, raw: bytes, chunks: int) -> Iterator[float]:
    """When each chunk's mark arrived, in seconds after the request."""
    ends = list(accumulate(map(len, answer.pieces)))
    place = 0
    for number in range(chunks):
        place = raw.index(mark(number).encode(), place) + len(mark(number))
        yield answer.times[bisect_left(ends, place)] - answer.asked
