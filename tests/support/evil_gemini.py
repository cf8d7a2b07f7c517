"""A Gemini on a raw socket that misbehaves: it stalls, resets, drips, floods, or never ends.

The model's name, such as `gemini-stall--7`, selects the behaviour from `Evil.faults`. Evil counts requests
and disconnects by model. With `chat_text` it is a server that speaks Chat Completions.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import orjson

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10}

Behaviour = Callable[["UpstreamCall"], None]


def event(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return b"data: " + orjson.dumps({"candidates": [candidate], "usageMetadata": USAGE, **more}) + b"\r\n\r\n"


def text(said: str, finish: str | None = None) -> bytes:
    return event({"text": said}, finish=finish)


def chat_text(said: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": said}, "finish_reason": finish and finish.lower()}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return b"data: " + orjson.dumps({"choices": [choice], "usage": usage}) + b"\n\n"


def framed(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def refusal(code: int, status: str, message: str, *details: dict[str, Any]) -> bytes:
    error = {"code": code, "status": status, "message": message, "details": list(details)}
    body = orjson.dumps({"error": error})
    return b"HTTP/1.1 %d Refused\r\nContent-Length: %d\r\n\r\n%b" % (code, len(body), body)


class UpstreamCall:
    """One request on one connection, and the means to answer it."""

    def __init__(self, evil: Evil, connection: socket.socket, model: str, number: int, body: Any) -> None:
        self.evil = evil
        self.connection = connection
        self.model = model
        self.number = number  #: counts the requests for this model, from 1
        self.body = body

    def text(self, said: str, finish: str | None = None) -> bytes:
        """An event with a text, in the form of this upstream."""
        return self.evil.text(said, finish)

    @property
    def good(self) -> bytes:
        return HEAD + framed(self.text("All "), self.text("is well.", "STOP")) + END

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.sendall(piece)

    def stall(self, seconds: float = 30.0) -> None:
        """Wait until the client disconnects or the time is over."""
        self.connection.settimeout(seconds)
        with suppress(OSError):
            if self.connection.recv(1) == b"":
                self.evil.disconnects[self.model] += 1
        raise OSError

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        raise OSError

    def close(self) -> None:
        self.connection.close()
        raise OSError


class Evil:
    def __init__(self, faults: dict[str, Behaviour], text: Callable[[str, str | None], bytes] = text) -> None:
        self.faults = faults
        self.text = text
        self.asked: Counter[str] = Counter()
        self.disconnects: Counter[str] = Counter()
        self.bodies: dict[str, list[Any]] = {}
        self.open = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self.open += 1
        try:
            with connection, suppress(OSError):
                for model, body in _requests(connection):
                    self._answer(connection, model, body)
        finally:
            with self._lock:
                self.open -= 1

    def _answer(self, connection: socket.socket, model: str, body: Any) -> None:
        with self._lock:
            self.asked[model] += 1
            number = self.asked[model]
            self.bodies.setdefault(model, []).append(body)
        name = model.partition("--")[0].partition("-")[2]
        try:
            self.faults.get(name, _good)(UpstreamCall(self, connection, model, number, body))
        except (BrokenPipeError, ConnectionResetError):
            self.disconnects[model] += 1
            raise


def _good(call: UpstreamCall) -> None:
    call.send(call.good)


def _requests(connection: socket.socket) -> Iterator[tuple[str, Any]]:
    reader = connection.makefile("rb")
    while line := reader.readline():
        length = 0
        while (header := reader.readline()) not in (b"\r\n", b""):
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        body = reader.read(length)
        sent = orjson.loads(body) if body else None
        found = re.search(rb"/models/([^:?/ ]+):", line)
        yield (found[1].decode() if found else (sent or {}).get("model", "gemini-list"), sent)
