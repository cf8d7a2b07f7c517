"""A Gemini on raw sockets that repeats each question's marker, and misbehaves on kept connections.

By itself it never answers a question with the marker of another. So a foreign marker in an answer means that
the bridge used bytes of one exchange for the answer to another question.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader

#: Each question has its own marker, in the model's name and in the prompt.
MARKER = re.compile(r"mk[0-9a-f]{16}")
_MODEL = re.compile(rb"/models/gemini-([a-z0-9-]+?)--(mk[0-9a-f]{16}):")
_LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]+)\r\n", re.IGNORECASE)
NO_MODELS = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"models":[]}'

Behaviour = Callable[["Question"], None]


class ConnectionEnded(Exception):
    """The upstream ended the connection on purpose."""


@dataclass
class Question:
    gemini: EchoingGemini
    connection: socket.socket
    marker: str
    number: int  #: counts the questions with this marker, from 1
    read_body: Callable[[], bytes]

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.sendall(piece)

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConnectionEnded

    def close_connection(self) -> None:
        raise ConnectionEnded

    def later(self, data: bytes, *, close: bool = False) -> None:
        """Send these bytes while the connection is idle, see `EchoingGemini.send_late`."""
        with self.gemini.lock:
            self.gemini.late.append(LateBytes(self.connection, data, close))


@dataclass(frozen=True)
class LateBytes:
    connection: socket.socket
    data: bytes
    close: bool


@dataclass
class EchoingGemini:
    behaviours: dict[str, Behaviour]
    early: frozenset[str] = frozenset()  #: behaviours that answer before they have read the question
    unsafe_to_reuse: frozenset[str] = frozenset()  #: behaviours after which the connection must not be reused
    asked: Counter[str] = field(default_factory=Counter)  #: number of questions by behaviour
    mixed: list[str] = field(default_factory=list)  #: questions that hold a foreign marker
    reused_unsafe: list[str] = field(default_factory=list)  #: questions on an unsafe connection
    late: list[LateBytes] = field(default_factory=list)
    connections: int = 0
    sent_late: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self._numbers: Counter[str] = Counter()
        self._unsafe: dict[socket.socket, str] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def reused(self) -> int:
        """Number of questions on a connection that had carried another."""
        return sum(self.asked.values()) - self.connections

    def times_asked(self, marker: str) -> int:
        return self._numbers[marker]

    def close(self) -> None:
        self._listener.close()

    def send_late(self) -> None:
        """Send the late bytes. Call this while no answer is running: after the next question, HTTP/1.1 could
        not distinguish them from its answer."""
        with self.lock:
            late, self.late = self.late, []
        for each in late:
            with suppress(OSError):  # the bridge has closed the connection
                each.connection.sendall(each.data)
                self.sent_late += 1
                self._unsafe[each.connection] = "what was said late"
                if each.close:
                    each.connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        counted = False
        with connection, suppress(OSError, ConnectionEnded):
            reader = connection.makefile("rb")
            for head in _heads(reader):
                found = _MODEL.search(head.partition(b"\r\n")[0])
                if found is None:  # the list of models
                    connection.sendall(NO_MODELS)
                    continue
                with self.lock:
                    self.connections += not counted
                counted = True
                self._answer(connection, reader, head, found[1].decode(), found[2].decode())

    def _answer(
        self, connection: socket.socket, reader: BufferedReader, head: bytes, behaviour: str, marker: str
    ) -> None:
        with self.lock:
            self.asked[behaviour] += 1
            self._numbers[marker] += 1
            number = self._numbers[marker]
            if made_unsafe_by := self._unsafe.get(connection):
                self.reused_unsafe.append(f"{behaviour} {marker} was asked behind {made_unsafe_by}")
            if behaviour in self.unsafe_to_reuse:
                self._unsafe[connection] = behaviour

        def read_body() -> bytes:
            body = reader.read(_length(head))
            self._check_markers(head + body, marker)
            return body

        question = Question(self, connection, marker, number, read_body)
        if behaviour not in self.early:
            read_body()
        self.behaviours[behaviour](question)

    def _check_markers(self, question: bytes, marker: str) -> None:
        found = set(MARKER.findall(question.decode("latin-1")))
        if found != {marker}:
            with self.lock:
                self.mixed.append(f"{marker} was asked with {found}")


def _heads(reader: BufferedReader) -> Iterator[bytes]:
    while line := reader.readline():
        head = line
        while line not in (b"\r\n", b""):
            line = reader.readline()
            head += line
        yield head


def _length(head: bytes) -> int:
    found = _LENGTH.search(head)
    return int(found[1]) if found else 0
