"""HTTP to the bridge itself, as a client would speak it, and by no proxy of the environment's."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

PATIENCE = 5.0  #: seconds that the other side may be silent
LARGEST_ANSWER = 1 << 20
#: Two events this far apart did not come out of one buffer.
APART = 0.3


class CallFailed(Exception):
    """`status` is 0 where there was no answer at all. The text holds nothing that was sent."""

    def __init__(self, said: str, status: int = 0) -> None:
        super().__init__(said)
        self.status = status


class NoAnswerInTime(CallFailed):
    """There is somebody, and nothing was heard of them."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When the events of a stream arrived, in seconds after the question."""

    first: float
    last: float
    events: int

    @property
    def spread(self) -> float:
        return self.last - self.first


def ask(address: str, path: str) -> dict[str, Any]:
    with _answered(address, "GET", path) as response:
        answer = orjson.loads(response.read(LARGEST_ANSWER))
        return answer if isinstance(answer, dict) else {}


def time_stream(address: str, path: str, body: Mapping[str, Any], key: str | None) -> Timing:
    """Listens until it is plain that events come one by one, or until the end, or until it is too long."""
    began = time.monotonic()
    deadline = began + PATIENCE
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    timing = Timing(0.0, 0.0, 0)
    with _answered(address, "POST", path, orjson.dumps(body), headers) as response:
        while timing.spread < APART and (data := response.read1(65_536)):
            if events := data.count(b"data: {"):
                now = time.monotonic() - began
                timing = Timing(timing.first or now, now, timing.events + events)
            if not timing.events and time.monotonic() > deadline:
                raise NoAnswerInTime(f"{address}{path}: no event within {PATIENCE:.0f} seconds")
    return timing


@contextmanager
def _answered(
    address: str, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Iterator[HTTPResponse]:
    try:
        with closing(_connected(address)) as connection:
            connection.request(method, urlsplit(address).path.rstrip("/") + path, body, dict(headers or {}))
            response = _head(connection, f"{address}{path}")
            if response.status != 200:
                raise CallFailed(f"{address}{path} answered {response.status}", response.status)
            yield response
    except (OSError, HTTPException, ValueError) as error:
        raise CallFailed(f"{address}{path}: {_words(error)}") from None


def _connected(address: str) -> HTTPConnection:
    parts = urlsplit(address)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=PATIENCE)
    connection.connect()
    return connection


def _head(connection: HTTPConnection, asked: str) -> HTTPResponse:
    try:
        return connection.getresponse()
    except TimeoutError:
        raise NoAnswerInTime(f"{asked}: no answer within {PATIENCE:.0f} seconds") from None


def _words(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
