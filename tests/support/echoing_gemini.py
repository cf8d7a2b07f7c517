"""A Gemini on raw sockets that says each question's marker in its answer, and misbehaves on connections that
are kept for the next question.

It never answers a question with the marker of another by itself. So a foreign marker in an answer means that
bytes of one question were taken for the answer to another.
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

#: One for each question, in the model's name and in the prompt.
MARKER = re.compile(r"mk[0-9a-f]{16}")
_MODEL = re.compile(rb"/models/gemini-([a-z0-9-]+?)--(mk[0-9a-f]{16}):")
_LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]+)\r\n", re.IGNORECASE)
NO_MODELS = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"models":[]}'

Deed = Callable[["Question"], None]


class HungUp(Exception):
    """The connection was ended on purpose."""


@dataclass
class Question:
    gemini: EchoingGemini
    connection: socket.socket
    marker: str
    number: int  #: of those with this marker, from 1
    read_body: Callable[[], bytes]

    def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.sendall(piece)

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise HungUp

    def hang_up(self) -> None:
        raise HungUp

    def later(self, data: bytes, *, close: bool = False) -> None:
        """To be said when nobody asks anything, see `EchoingGemini.say_late`."""
        with self.gemini.lock:
            self.gemini.late.append(Late(self.connection, data, close))


@dataclass(frozen=True)
class Late:
    connection: socket.socket
    data: bytes
    close: bool


@dataclass
class EchoingGemini:
    deeds: dict[str, Deed]
    early: frozenset[str] = frozenset()  #: those of them that answer before they have read the question
    spoiling: frozenset[str] = frozenset()  #: those after which nobody may ask over the same connection
    asked: Counter[str] = field(default_factory=Counter)  #: questions by their deed
    mixed: list[str] = field(default_factory=list)  #: questions with a marker that is not theirs
    trusting: list[str] = field(default_factory=list)  #: questions over a connection that was spoilt
    late: list[Late] = field(default_factory=list)
    connections: int = 0
    said_late: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self._numbers: Counter[str] = Counter()
        self._spoilt: dict[socket.socket, str] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def reused(self) -> int:
        """Questions over a connection that had carried another."""
        return sum(self.asked.values()) - self.connections

    def times_asked(self, marker: str) -> int:
        return self._numbers[marker]

    def close(self) -> None:
        self._listener.close()

    def say_late(self) -> None:
        """To be called while no answer is under way. Otherwise what is late could come behind the next
        question, and HTTP/1.1 has nothing by which an answer could be told from it."""
        with self.lock:
            late, self.late = self.late, []
        for each in late:
            with suppress(OSError):  # the bridge has closed it
                each.connection.sendall(each.data)
                self.said_late += 1
                self._spoilt[each.connection] = "what was said late"
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
        with connection, suppress(OSError, HungUp):
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
        self, connection: socket.socket, reader: BufferedReader, head: bytes, deed: str, marker: str
    ) -> None:
        with self.lock:
            self.asked[deed] += 1
            self._numbers[marker] += 1
            number = self._numbers[marker]
            if spoilt_by := self._spoilt.get(connection):
                self.trusting.append(f"{deed} {marker} was asked behind {spoilt_by}")
            if deed in self.spoiling:
                self._spoilt[connection] = deed

        def read_body() -> bytes:
            body = reader.read(_length(head))
            self._look_for_strangers(head + body, marker)
            return body

        question = Question(self, connection, marker, number, read_body)
        if deed not in self.early:
            read_body()
        self.deeds[deed](question)

    def _look_for_strangers(self, question: bytes, marker: str) -> None:
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
