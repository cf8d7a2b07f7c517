"""The clients: they send requests over plain sockets, and keep the received bytes with their times.

The clients parse nothing during a run, so that they need little CPU. bench/check.py reads and checks the
bytes later.
"""

from __future__ import annotations

import gc
import re
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from bench.conversation import NUMBER_PLACE

READ_SIZE = 1 << 18
TIMEOUT = 120.0  #: seconds without a byte after which an answer has failed
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_CLOSING = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_END = b"\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    """The bytes of a request before and after its number."""

    before: bytes
    after: bytes

    @classmethod
    def post(cls, host: str, path: str, headers: dict[str, str], body: bytes) -> Request:
        lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", "Accept: */*"]
        lines += [f"Content-Length: {len(body)}", "User-Agent: bench"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        before, _, after = body.partition(NUMBER_PLACE.encode())
        return cls("\r\n".join(lines).encode() + b"\r\n\r\n" + before, after)

    def numbered(self, number: int) -> bytes:
        return self.before + b"%0*d" % (len(NUMBER_PLACE), number) + self.after


@dataclass(slots=True)
class Answer:
    asked: float
    pieces: list[bytes] = field(default_factory=list)
    times: list[float] = field(default_factory=list)  #: when each piece arrived
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Load:
    clients: int = 1
    each: int = 1  #: requests of each client, one after another
    ramp: float = 0.0  #: seconds over which the starts of the clients are spread
    seconds: float = float("inf")  #: after this time no new request starts


class _Client:
    """A client with one connection, which it uses for all requests unless the gateway closes it."""

    def __init__(self, port: int, selector: selectors.BaseSelector) -> None:
        self._port = port
        self._selector = selector
        self._socket: socket.socket | None = None
        self._left: int | None = None  #: bytes still to come, if the head has a Content-Length
        self._headed = False
        self.answer = Answer(0.0)
        self.asked = 0

    def ask(self, request: bytes) -> None:
        self.asked += 1
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(self._socket, selectors.EVENT_READ, self)
        self._headed, self._left = False, None
        self.answer = Answer(time.perf_counter())
        self._socket.sendall(request)

    def take(self) -> bool:
        """Read the available bytes; return whether the answer has ended."""
        assert self._socket is not None
        data = self._socket.recv(READ_SIZE)
        self.answer.times.append(time.perf_counter())
        self.answer.pieces.append(data)
        if not data:
            return self._cut()
        if not self._headed:
            self._read_head()
        elif self._left is not None:
            self._left -= len(data)
        return self._headed and self._over()

    def _read_head(self) -> None:
        head, blank, rest = b"".join(self.answer.pieces).partition(b"\r\n\r\n")
        self._headed = bool(blank)
        if length := _LENGTH.search(head):
            self._left = int(length[1]) - len(rest)

    def _over(self) -> bool:
        ended = b"".join(self.answer.pieces[-3:]).endswith(_END)
        over = ended if self._left is None else self._left <= 0
        if over and _CLOSING.search(self.answer.pieces[0]):
            self.leave()
        return over

    def _cut(self) -> bool:
        """The closed connection ends the answer only if the head names neither a length nor chunks."""
        self.leave()
        head = b"".join(self.answer.pieces).partition(b"\r\n\r\n")[0]
        if self._left is not None or _CHUNKED.search(head) or not self._headed:
            self.answer.failure = "cut"
        return True

    def leave(self) -> None:
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None


class _Run:
    def __init__(self, port: int, request: Request, load: Load, selector: selectors.BaseSelector) -> None:
        self._request = request
        self._load = load
        self._selector = selector
        self._clients = [_Client(port, selector) for _ in range(load.clients)]
        self._numbers = count()
        self._answers: list[Answer] = []
        self._began = time.perf_counter()
        self._idle = list(reversed(self._clients))
        self._busy = 0

    def answers(self) -> list[Answer]:
        self._begin_due()
        while self._busy or self._idle:
            ready = self._selector.select(self._timeout())
            if not ready and not self._idle:
                self._give_up()
                break
            for key, _ in ready:
                self._take(key.data)
            self._begin_due()
        for client in self._clients:
            client.leave()
        return self._answers

    def _timeout(self) -> float:
        return max(0.0, self._next_start() - time.perf_counter()) if self._idle else TIMEOUT

    def _next_start(self) -> float:
        """When the next of the waiting clients starts."""
        begun = len(self._clients) - len(self._idle)
        return self._began + self._load.ramp * begun / len(self._clients)

    def _begin_due(self) -> None:
        while self._idle and self._next_start() <= time.perf_counter():
            self._busy += 1
            self._ask(self._idle.pop())

    def _ask(self, client: _Client) -> None:
        client.ask(self._request.numbered(next(self._numbers)))

    def _take(self, client: _Client) -> None:
        try:
            over = client.take()
        except OSError as error:
            client.leave()
            client.answer.failure, over = type(error).__name__, True
        if not over:
            return
        self._answers.append(client.answer)
        in_time = time.perf_counter() - self._began < self._load.seconds
        if client.asked < self._load.each and in_time:
            self._ask(client)
        else:
            self._busy -= 1
            client.leave()

    def _give_up(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.data.answer.failure = "timeout"
            self._answers.append(key.data.answer)


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def put(port: int, request: Request, load: Load) -> list[Answer]:
    """Send requests as the load says; return every answer, right or wrong."""
    with selectors.DefaultSelector() as selector, _no_collection():
        return _Run(port, request, load, selector).answers()
