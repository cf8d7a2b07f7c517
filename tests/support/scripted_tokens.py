"""Google's token server on loopback: it issues numbered tokens, or fails as a test scripts it."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import orjson
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

#: Every token starts with this text, which must never appear in a log or a response.
CANARY_TOKEN = "ya29.canary-token-never-to-be-seen-"


class TokenServer:
    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self._failures: deque[tuple[int, bytes]] = deque()
        self.free = threading.Event()  #: while it is clear, the server issues no token
        self.forget()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def will_fail(self, status: int, body: Any) -> None:
        self._failures.append((status, body if isinstance(body, bytes) else orjson.dumps(body)))

    def forget(self) -> None:
        self.asked.clear()
        self._failures.clear()
        self.lifetime = 3600
        self.delay = 0.0
        self.free.set()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _reply(self) -> tuple[int, bytes]:
        if self._failures:
            return self._failures.popleft()
        token = f"{CANARY_TOKEN}{len(self.asked)}"
        said = {"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"}
        return 200, orjson.dumps(said)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                server.asked.append(dict(parse_qsl(form)))
                status, body = server._reply()
                time.sleep(server.delay)
                server.free.wait(60)
                with suppress(OSError):  # the caller may have disconnected
                    self._say(status, body)

            def _say(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler


@cache
def private_key() -> str:
    """Return a key that is generated for this test run and grants nothing."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def service_account(token_uri: str) -> dict[str, str]:
    return {
        "type": "service_account",
        "project_id": "canary-project",
        "private_key_id": "1",
        "private_key": private_key(),
        "client_email": "bridge@canary-project.iam.gserviceaccount.com",
        "token_uri": token_uri,
    }


def gemini_cli_login(token_uri: str = "", left: float = 3600.0, **more: Any) -> dict[str, Any]:
    """Return a login as Gemini CLI writes it, plus the token URI, which Gemini CLI has built in."""
    return {
        "access_token": f"{CANARY_TOKEN}file",
        "refresh_token": "1//canary-refresh-token",
        "scope": "https://www.googleapis.com/auth/cloud-platform openid",
        "token_type": "Bearer",
        "expiry_date": int((time.time() + left) * 1000),
        "token_uri": token_uri,
        **more,
    }
