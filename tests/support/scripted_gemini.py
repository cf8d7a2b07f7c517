"""A Gemini on loopback that sends the bytes a test scripts, and records the requests."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

SHOW = "/api/show"  #: the path at which Ollama describes a model
SHOWN = {"model_info": {"qwen3.context_length": 40960}, "capabilities": ["tools", "thinking"]}
CUT = object()  #: in a body: close the connection here


def sse(*chunks: Any) -> list[bytes]:
    return [b"data: " + orjson.dumps(chunk) + b"\r\n\r\n" for chunk in chunks]


def text_chunk(text: str, finish: str | None = None, **usage: int) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    counts = usage or {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    return {"candidates": [candidate], "usageMetadata": counts}


def call_chunk(
    name: str, args: Any, call_id: str, signature: str | None = None, finish: str | None = None
) -> Any:
    part: dict[str, Any] = {"functionCall": {"id": call_id, "name": name, "args": args}}
    if signature:
        part["thoughtSignature"] = signature
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [part]}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate]}


@dataclass
class Reply:
    """A scripted response. `body` holds bytes to send, seconds to wait, functions to call, or CUT."""

    body: Iterable[Any] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # else many simultaneous connections are refused


class ScriptedGemini:
    def __init__(self) -> None:
        self.asked: list[Asked] = []
        #: Requests for the list of models, and for Ollama's description of a model. They are kept apart:
        #: each worker sends them at a time of its own.
        self.listings: list[Asked] = []
        self._replies: deque[Reply] = deque()
        self._answer: Callable[[Asked], Any] | None = None
        self._listed: Any = None
        self._shown: Any = SHOWN
        self._server = _Server(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def will_say(self, *replies: Reply | Iterable[Any]) -> None:
        self._replies.extend(each if isinstance(each, Reply) else Reply(each) for each in replies)

    def will_answer(self, answer: Callable[[Asked], Any]) -> None:
        """Answer each request with the result of `answer`, after all scripted replies are sent."""
        self._answer = answer

    def will_list(self, *pages: Any) -> None:
        """Replace the model list by these pages; the last page is repeated."""
        self._listed = deque(pages)

    def will_show(self, shown: Any) -> None:
        """Replace what the server, as an Ollama, says about each model."""
        self._shown = shown

    def forget(self) -> None:
        self.asked.clear()
        self.listings.clear()
        self._replies.clear()
        self._answer = None
        self._listed = None
        self._shown = SHOWN

    def _reply_to(self, asked: Asked) -> Reply:
        if self._replies:
            return self._replies.popleft()
        said = self._answer(asked) if self._answer else sse(text_chunk("Hello.", "STOP"))
        return said if isinstance(said, Reply) else Reply(said)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else every response waits 40 ms for an acknowledgement

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked("POST", self.path, headers, orjson.loads(body))
                if self.path == SHOW:
                    scripted.listings.append(asked)
                    return self._send_document(scripted._shown)
                scripted.asked.append(asked)
                return self._send(scripted._reply_to(asked))

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                scripted.listings.append(Asked("GET", self.path, headers, None))
                if scripted._listed:
                    page = scripted._listed.popleft() if len(scripted._listed) > 1 else scripted._listed[0]
                    return self._send_document(page)
                models = [
                    {
                        "name": f"models/{name}",
                        "inputTokenLimit": 1048576,
                        "outputTokenLimit": 65536,
                        "supportedGenerationMethods": ["generateContent", "countTokens"],
                    }
                    for name in ("gemini-3.8-flash", "gemini-3.1-pro-preview")
                ]
                return self._send(Reply([orjson.dumps({"models": models})]))

            def _send_document(self, document: Any) -> None:
                self._send(document if isinstance(document, Reply) else Reply([orjson.dumps(document)]))

            def _send(self, reply: Reply) -> None:
                self.send_response(reply.status)
                self.send_header("Transfer-Encoding", "chunked")
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self._send_body(reply.body)
                except OSError:
                    self.close_connection = True

            def _send_body(self, body: Iterable[Any]) -> None:
                for piece in body:
                    if piece is CUT:
                        self.close_connection = True
                        self.connection.close()
                        return
                    if isinstance(piece, int | float):
                        time.sleep(piece)
                        continue
                    if callable(piece):
                        piece()
                        continue
                    if not piece:  # it would be the end of the body
                        continue
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *args: Any) -> None:
                pass

        return Handler
