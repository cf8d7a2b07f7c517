"""An MCP server on loopback that does what a test says, right or wrong."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple

MODERN = "2026-07-28"
TOOL = {"name": "search", "description": "Searches.", "inputSchema": {"type": "object", "properties": {}}}

Message = dict[str, Any]


class Asked(NamedTuple):
    method: str  #: of JSON-RPC; of HTTP if there is no body
    message: Message
    headers: dict[str, str]  #: with lower-case names


class Answer(NamedTuple):
    body: bytes = b""
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = MappingProxyType({})
    pieces: tuple[bytes | float, ...] = ()  #: after the body: bytes, or seconds to wait


Handler = Callable[[Asked], Answer]


def as_json(message: Any, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(json.dumps(message).encode(), status, headers=named)


def result(asked: Asked, value: Message, **headers: str) -> Answer:
    return as_json({"jsonrpc": "2.0", "id": asked.message.get("id"), "result": value}, **headers)


def error(asked: Asked, code: int, text: str, data: Any = None, status: int = 200) -> Answer:
    problem = {"code": code, "message": text, **({} if data is None else {"data": data})}
    return as_json({"jsonrpc": "2.0", "id": asked.message.get("id"), "error": problem}, status)


def event(message: Any) -> bytes:
    return b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n"


def events(*messages: Any | float) -> Answer:
    pieces = tuple(each if isinstance(each, float) else event(each) for each in messages)
    return Answer(kind="text/event-stream", pieces=pieces)


def text(words: str) -> Message:
    return {"resultType": "complete", "content": [{"type": "text", "text": words}]}


class ScriptedMcp:
    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.closed = threading.Event()  #: a client closed its connection in the middle of an answer
        self.url = ""
        self.forget()

    def forget(self) -> None:
        """Be again as at the beginning."""
        self.asked.clear()
        self.closed.clear()
        self.tools: list[Any] = [TOOL]
        self.handlers: dict[str, Handler] = {
            "server/discover": lambda asked: result(asked, {"supportedVersions": [MODERN]}),
            "tools/list": lambda asked: result(asked, {"tools": self.tools}),
            "tools/call": lambda asked: result(asked, text("found")),
        }

    def methods(self) -> list[str]:
        return [asked.method for asked in self.asked]

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        handler = self.handlers.get(asked.method)
        return error(asked, -32601, "unknown", status=404) if handler is None else handler(asked)

    def speak_with_handshakes(self, session: str = "s1", version: str = "2025-11-25") -> None:
        started = {
            "protocolVersion": version,
            "capabilities": {},
            "serverInfo": {"name": "x", "version": "1"},
        }
        self.handlers["server/discover"] = lambda asked: Answer(b"Bad Request", 400, "text/plain")
        self.handlers["initialize"] = lambda asked: result(asked, started, Mcp_Session_Id=session)
        self.handlers["notifications/initialized"] = lambda asked: Answer(status=202)
        self.handlers["DELETE"] = lambda asked: Answer()


@contextmanager
def scripted_mcp() -> Iterator[ScriptedMcp]:
    scripted = ScriptedMcp()

    class Connection(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_args: Any) -> None:
            pass

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            message = json.loads(body) if body else {}
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = scripted.answer(Asked(message.get("method") or self.command, message, headers))
            with suppress(OSError):
                self._send(answer)

        def _send(self, answer: Answer) -> None:
            self.send_response_only(answer.status)
            for name, value in {"Content-Type": answer.kind, **answer.headers}.items():
                self.send_header(name, value)
            if not answer.pieces:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            try:
                for piece in answer.pieces:
                    self._send_piece(piece)
            except OSError:
                scripted.closed.set()
            self.close_connection = True

        def _send_piece(self, piece: bytes | float) -> None:
            if isinstance(piece, bytes):
                self.wfile.write(piece)
                self.wfile.flush()
            else:
                time.sleep(piece)

        def do_POST(self) -> None:
            self._serve()

        def do_DELETE(self) -> None:
            self._serve()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Connection)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    scripted.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    try:
        yield scripted
    finally:
        server.shutdown()
        server.server_close()
