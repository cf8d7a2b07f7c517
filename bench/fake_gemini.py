"""A fake Gemini on loopback that needs very little CPU: `python -m bench.fake_gemini PORT`

Every answer is prepared in advance. One thread serves all connections, so that hundreds of paced streams keep
their schedule. Each event is an HTTP chunk with its own send, as with a real model. `GET /asked` counts the
parts of the last request: a gateway that drops half of a request would be fast, too.
"""

from __future__ import annotations

import gc
import heapq
import select
import selectors
import socket
import sys
import time
from collections import deque
from functools import lru_cache
from itertools import count
from typing import Any

import orjson

from bench.script import Script, stream_payloads, whole_payload

READ_SIZE = 1 << 18
_STREAM_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"


# --- answers -----------------------------------------------------------------------------------------


def _json_response(document: Any) -> bytes:
    body = orjson.dumps(document)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _framed(head: str, events: list[bytes]) -> list[bytes]:
    """The HTTP frames of a stream: the first contains the head, the last the end mark."""
    frames = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]
    frames[0] = _STREAM_HEAD.format(head).encode() + frames[0]
    frames[-1] += _END
    return frames


@lru_cache
def event_frames(chunks: int) -> list[bytes]:
    events = [b"data: " + orjson.dumps(each) + b"\r\n\r\n" for each in stream_payloads(chunks)]
    return _framed("text/event-stream", events)


@lru_cache
def array_frames(chunks: int) -> list[bytes]:
    """Without `alt=sse` the answer is one pretty-printed array, sent element by element."""
    elements = [orjson.dumps(each, option=orjson.OPT_INDENT_2) + b"\n" for each in stream_payloads(chunks)]
    pieces = [(b",\r\n" if number else b"[") + element for number, element in enumerate(elements)]
    pieces[-1] += b"]\n"
    return _framed("application/json; charset=UTF-8", pieces)


@lru_cache
def whole_answer(chunks: int) -> list[bytes]:
    return [_json_response(whole_payload(chunks))]


def answer_to(path: str, script: Script) -> list[bytes]:
    if ":streamGenerateContent" not in path:
        return whole_answer(script.chunks)
    return event_frames(script.chunks) if "alt=sse" in path else array_frames(script.chunks)


def counts_of(body: bytes) -> dict[str, int]:
    """How many turns, texts, calls, results and tools the request has."""
    request = orjson.loads(body)
    parts = [part for content in request["contents"] for part in content["parts"]]
    declared = [
        tool.get("functionDeclarations") or tool.get("function_declarations") or []
        for tool in request.get("tools") or []
    ]
    return {
        "turns": len(request["contents"]),
        "texts": sum(bool(part.get("text")) for part in parts),
        "calls": sum("functionCall" in part or "function_call" in part for part in parts),
        "results": sum("functionResponse" in part or "function_response" in part for part in parts),
        "tools": sum(map(len, declared)),
    }


# --- requests ----------------------------------------------------------------------------------------


class Incoming:
    """Collects the bytes of one connection until a request is complete."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._head: bytes | None = None

    def feed(self, data: bytes) -> tuple[str, bytes] | None:
        """The path and the body once the request is complete, else None."""
        self._data += data
        if self._head is None:
            head, blank, rest = self._data.partition(b"\r\n\r\n")
            if not blank:
                return None
            self._head, self._data = bytes(head), bytearray(rest)
        if not self._complete(self._head.lower()):
            return None
        path = self._head.split(b" ", 2)[1].decode("latin-1")
        body, self._head, self._data = bytes(self._data), None, bytearray()
        return path, body

    def _complete(self, head: bytes) -> bool:
        if b"\r\ntransfer-encoding: chunked" in head:
            return self._data.endswith(_END)
        length = head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        return len(self._data) >= int(length or 0)


# --- connections -------------------------------------------------------------------------------------


class Connection:
    def __init__(self, server: Server, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setblocking(False)
        self._server = server
        self._socket = client
        self._incoming = Incoming()
        self._outgoing: deque[bytes] = deque()
        self._paced: deque[bytes] = deque()
        self._events = 0
        self._watch(selectors.EVENT_READ)

    def ready(self, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush()
            if events & selectors.EVENT_READ:
                self._read()
        except OSError:
            self._leave()

    def _read(self) -> None:
        data = self._socket.recv(READ_SIZE)
        if not data:
            self._leave()
        elif asked := self._incoming.feed(data):
            self._answer(*asked)

    def _answer(self, path: str, body: bytes) -> None:
        if path == "/asked":
            self._outgoing.append(_json_response(counts_of(self._server.asked)))
            return self._flush()
        self._server.asked = body
        script = Script.named_in(path)
        frames = answer_to(path, script)
        if not script.pause_ms or len(frames) == 1:
            self._outgoing.extend(frames)
            return self._flush()
        self._paced = deque(frames)
        return self._server.pace(self, script.pause_ms / 1000)

    def send_next(self) -> bool:
        """Send the next event of a paced stream; return whether more follow."""
        try:
            if self._paced:
                self._outgoing.append(self._paced.popleft())
                self._flush()
        except OSError:
            self._leave()
        return bool(self._paced)

    def _flush(self) -> None:
        while self._outgoing:
            data = self._outgoing[0]
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                return self._watch(selectors.EVENT_READ | selectors.EVENT_WRITE)
            if sent == len(data):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = data[sent:]
        return self._watch(selectors.EVENT_READ)

    def _watch(self, events: int) -> None:
        if events != self._events:
            self._server.watch(self._socket, events, self)
            self._events = events

    def _leave(self) -> None:
        self._paced.clear()
        self._outgoing.clear()
        if self._events:
            self._events = 0
            self._server.forget(self._socket)
            self._socket.close()


class Server:
    def __init__(self, port: int) -> None:
        self.asked = b"{}"
        self._selector = selectors.DefaultSelector()
        self._due: list[tuple[float, int, Connection, float]] = []
        self._order = count()  #: decides between streams that are due at the same moment
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def run(self) -> None:
        waiting = self._selector.fileno()
        while True:
            # epoll has a resolution of one millisecond; select is finer, and waits for the epoll descriptor.
            select.select([waiting], [], [], self._seconds_until_due())
            for key, events in self._selector.select(0):
                if key.data is None:
                    Connection(self, self._listener.accept()[0])
                else:
                    key.data.ready(events)
            self._send_due()

    def watch(self, client: socket.socket, events: int, connection: Connection) -> None:
        if client in self._selector.get_map():
            self._selector.modify(client, events, connection)
        else:
            self._selector.register(client, events, connection)

    def forget(self, client: socket.socket) -> None:
        self._selector.unregister(client)

    def pace(self, connection: Connection, pause: float) -> None:
        self._put_off(time.monotonic(), connection, pause)
        self._send_due()

    def _put_off(self, due: float, connection: Connection, pause: float) -> None:
        heapq.heappush(self._due, (due, next(self._order), connection, pause))

    def _seconds_until_due(self) -> float | None:
        return max(0.0, self._due[0][0] - time.monotonic()) if self._due else None

    def _send_due(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            due, _, connection, pause = heapq.heappop(self._due)
            if connection.send_next():
                self._put_off(due + pause, connection, pause)


if __name__ == "__main__":
    gc.disable()
    Server(int(sys.argv[1])).run()
