"""HTTP requests to the bridge, as a client sends them, without the proxies of the environment."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, RemoteDisconnected
from typing import Any
from urllib.parse import urlsplit

import orjson

from bridge.certificates import tls_context

TIMEOUT = 5.0  #: seconds without data
LARGEST_ANSWER = 1 << 20
#: Seconds between two events that show that no proxy buffers them.
UNBUFFERED_SPREAD = 0.3


class CallFailed(Exception):
    """`status` is 0 if there was no answer. The message contains nothing that was sent."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NoAnswerInTime(CallFailed):
    """The connection was opened, but no answer arrived in time."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When the events of a stream arrived, in seconds after the request."""

    first: float
    last: float
    events: int

    @property
    def spread(self) -> float:
        return self.last - self.first


def get_json(address: str, path: str) -> dict[str, Any]:
    with _answered(address, "GET", path) as response:
        answer = orjson.loads(response.read(LARGEST_ANSWER))
        return answer if isinstance(answer, dict) else {}


def time_stream(address: str, path: str, body: Mapping[str, Any], key: str | None) -> Timing:
    """Read a stream until its events are known to be unbuffered, until its end, or until the timeout."""
    began = time.monotonic()
    deadline = began + TIMEOUT
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    timing = Timing(0.0, 0.0, 0)
    with _answered(address, "POST", path, orjson.dumps(body), headers) as response:
        while timing.spread < UNBUFFERED_SPREAD and (data := response.read1(65_536)):
            if events := data.count(b"data: {"):
                now = time.monotonic() - began
                timing = Timing(timing.first or now, now, timing.events + events)
            if not timing.events and time.monotonic() > deadline:
                raise NoAnswerInTime(f"{address}{path}: no event within {TIMEOUT:.0f} seconds")
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
        raise CallFailed(f"{address}{path}: {_reason(error)}") from None


def _connected(address: str) -> HTTPConnection:
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port
    connection = (
        HTTPSConnection(host, port, timeout=TIMEOUT, context=tls_context())
        if parts.scheme == "https"
        else HTTPConnection(host, port, timeout=TIMEOUT)
    )
    connection.connect()
    return connection


def _head(connection: HTTPConnection, url: str) -> HTTPResponse:
    try:
        return connection.getresponse()
    except TimeoutError:
        raise NoAnswerInTime(f"{url}: no answer within {TIMEOUT:.0f} seconds") from None


def _reason(error: Exception) -> str:
    match error:
        case ConnectionRefusedError():
            return "connection refused"
        case TimeoutError():
            return f"timeout after {TIMEOUT:.0f} seconds"
        case RemoteDisconnected():
            return "the server closed the connection without an answer"
        case HTTPException():
            return "the server sent an invalid HTTP response"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
