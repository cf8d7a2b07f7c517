"""Sends JSON-RPC messages to one server by HTTP POST, one connection for each, and reads what comes back."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from bridge import __version__
from bridge.agents.mcp import messages
from bridge.agents.mcp.address import CheckedRoute
from bridge.agents.mcp.errors import McpError, McpStatus, McpStopped, McpTimeout
from bridge.errors import BridgeError, UpstreamTimeout
from bridge.gemini.hosted_servers import secrets_in_headers
from bridge.gemini.types import JsonObject
from bridge.upstream.masking import Mask
from bridge.upstream.transport.http_response import HttpResponse, Timeouts
from bridge.upstream.transport.sse_decoder import SseDecoder

#: Whether the caller no longer wants the answer; asked at least once a tick.
Stop = Callable[[], bool]
Headers = Mapping[str, str]

TICK = 0.25
ACCEPTED = "application/json, text/event-stream"


@dataclass(frozen=True, slots=True)
class McpLimits:
    connect: float = 10.0  #: seconds
    call: float = 30.0  #: seconds for one request and its whole answer
    most_bytes: int = 16 << 20  #: of one answer


class Channel:
    """One server as one caller may use it. `headers` hold the credentials."""

    def __init__(
        self,
        route: CheckedRoute,
        server: str,
        limits: McpLimits,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.server = f"the MCP server {server}"
        self.limits = limits
        self._route = route
        self._headers = dict(headers)
        self._masks = [Mask(secret) for secret in secrets_in_headers(headers)]

    @contextmanager
    def send(self, body: bytes, headers: Headers, stop: Stop, method: str = "POST") -> Iterator[Reply]:
        """One request over a connection of its own. Leaving the context closes the connection, by which a
        server of the newer protocol learns that its answer is no longer wanted."""
        until = time.monotonic() + self.limits.call
        sock = self._route.open(min(self.limits.connect, self.limits.call), self.server)
        try:
            response = self._written(sock, self._head(method, headers, len(body)) + body, until)
        except BaseException:
            sock.close()
            raise
        try:
            yield Reply(self, response, stop)
        finally:
            response.close()

    @property
    def url(self) -> str:
        return self._route.address.url

    def _head(self, method: str, headers: Headers, length: int) -> bytes:
        address = self._route.address
        fields = {
            **self._headers,
            **headers,
            "Host": address.host_field,
            "User-Agent": f"gemini-bridge/{__version__}",
            "Accept": ACCEPTED,
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "Content-Length": str(length),
            "Connection": "close",
        }
        lines = [f"{method} {address.target} HTTP/1.1", *(f"{name}: {each}" for name, each in fields.items())]
        return "\r\n".join((*lines, "", "")).encode("latin-1")

    def _written(self, sock: socket.socket, data: bytes, until: float) -> HttpResponse:
        left = max(TICK, until - time.monotonic())
        sock.settimeout(left)
        try:
            sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server may have answered before it closed the connection
        except OSError as error:
            raise McpError(f"{self.server} does not accept the request ({type(error).__name__}).") from None
        timeouts = Timeouts(self.limits.connect, left, left, left, TICK)
        return HttpResponse(_Connection(sock), lambda _connection: sock.close(), timeouts, self.server)

    def masked(self, payload: bytes) -> bytes:
        """Without the credentials, if the server quotes them."""
        for mask in self._masks:
            payload = mask(payload)
        return payload


@dataclass(frozen=True, slots=True)
class _Connection:
    sock: socket.socket

    def close(self) -> None:
        self.sock.close()


class Reply:
    """What a server sends back for one message."""

    def __init__(self, channel: Channel, response: HttpResponse, stop: Stop) -> None:
        self._channel = channel
        self._response = response
        self._stop = stop
        with self._translated():
            for _ in response.head():
                self._check_stop()
        self.status = response.status

    def field(self, name: str) -> str:
        return self._response.field(name)

    @property
    def kind(self) -> str:
        """The media type, without its parameters."""
        return self.field("content-type").partition(";")[0].strip().lower()

    def messages(self) -> Iterator[JsonObject]:
        """The messages of a JSON body, or of an event stream as they arrive."""
        server = self._channel.server
        if self.kind == "text/event-stream":
            payloads = self._events()
        elif self.kind == "application/json":
            payloads = iter((b"".join(self._pieces()),))
        else:
            raise McpError(f"{server} answered with neither JSON nor an event stream.")
        for payload in payloads:
            yield messages.parse(self._channel.masked(payload), server)

    def _events(self) -> Iterator[bytes]:
        decoder = SseDecoder(self._channel.server)
        for piece in self._pieces():
            with self._translated():
                ready = decoder.feed(piece)
            yield from ready
        yield from decoder.finish()

    def _pieces(self) -> Iterator[bytes]:
        left = self._channel.limits.most_bytes
        with self._translated():
            for piece in self._response.body():
                self._check_stop()
                left -= len(piece)
                if left < 0:
                    most = self._channel.limits.most_bytes >> 20
                    raise McpError(f"{self._channel.server} sent more than {most} MB in one answer.")
                if piece:
                    yield piece

    def _check_stop(self) -> None:
        if self._stop():
            raise McpStopped("nobody waits for the answer any more")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except UpstreamTimeout as error:
            raise McpTimeout(error.message) from None
        except BridgeError as error:
            raise McpError(error.message) from None

    def check_status(self) -> None:
        """Raises unless the status is that of an answer."""
        server = self._channel.server
        if 300 <= self.status < 400:
            raise McpError(f"{server} redirects to another address, which the bridge does not follow.")
        if self.status == 202:
            raise McpError(f"{server} took the request without an answer.")

    def failure(self) -> McpError:
        """The error of a refused request: the server's own reason, if it sends one."""
        with suppress(McpError):
            for message in self.messages():
                if isinstance(message.get("error"), dict):
                    return messages.rpc_error(message["error"])
        return McpStatus(self._channel.server, self.status)
