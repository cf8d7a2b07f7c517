"""Small servers on loopback for cases that the scripted Gemini does not cover: other heads, TLS, proxies."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests
from certificates import Certificate

#: From the path and headers of a request to the status, headers and body of the response.
Answer = Callable[[str, dict[str, str]], tuple[int, dict[str, str], bytes]]


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def send_response(self, code: int, message: str | None = None) -> None:
        self.send_response_only(code, message)  # without an automatic Date header

    def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler], certificate: Certificate | None = None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if certificate:
        server.socket = _context(certificate).wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    return context


@contextmanager
def answering(answer: Answer, certificate: Certificate | None = None) -> Iterator[str]:
    class Handler(_Quiet):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.reply(*answer(self.path, headers))

        do_POST = do_GET  # noqa: N815

    with _serving(Handler, certificate) as address:
        yield address


@contextmanager
def intercepting_proxy(certificate: Certificate) -> Iterator[str]:
    """A proxy that intercepts every TLS connection with its own certificate, like companies' proxies."""

    class Handler(_Quiet):
        def do_CONNECT(self) -> None:
            self.send_response(200)
            self.end_headers()
            with _context(certificate).wrap_socket(self.connection, server_side=True) as inside:
                inside.recv(65_536)
                inside.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n{}")
            self.close_connection = True

    with _serving(Handler) as address:
        yield address


@contextmanager
def buffering_proxy(behind: str) -> Iterator[str]:
    """A proxy that buffers a whole response before it passes it on, which breaks streaming."""

    class Handler(_Quiet):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {
                "Content-Type": "application/json",
                "Authorization": self.headers.get("authorization", ""),
            }
            answer = requests.post(f"{behind}{self.path}", data=body, headers=headers, timeout=60)
            self.reply(answer.status_code, {}, answer.content)

        def do_GET(self) -> None:
            answer = requests.get(f"{behind}{self.path}", timeout=60)
            self.reply(answer.status_code, {}, answer.content)

    with _serving(Handler) as address:
        yield address
