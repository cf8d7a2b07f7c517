"""One process's connections to one upstream, and the calls that are sent over them.

`requests` prepares a request, reads proxies from the environment, and makes the pool of urllib3 connections.
The bridge itself opens a connection, writes the request and reads the response. `requests` would wait for the
head of a response inside one call, and a thread that waits there can neither send a heartbeat to the client
nor notice that the client disconnected.

Only this module calls private methods of urllib3 (`_get_conn` and `_put_conn`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from bridge import __version__
from bridge.certificates import ca_bundle
from bridge.upstream.transport.exception_map import GEMINI, connection_errors_translated, unreachable
from bridge.upstream.transport.http_response import HttpResponse, Timeouts

CACHED_REQUESTS = 256
#: A large request takes long on a slow network; the connect timeout must not abort it.
SEND_TIMEOUT = 60.0
#: A larger body is sent by a second call: copying it behind the head costs more than the call.
LARGEST_COPIED = 16_384


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    method: str
    url: str
    timeouts: Timeouts
    body: bytes | None = None
    model: str = ""
    quota: str = ""  #: the name under which a key without quota cools down, if that is not the model
    headers: tuple[tuple[str, str], ...] = ()  #: without the credentials
    conversation: str = ""  #: the id of the conversation, if there is one

    def prepared(self, credentials: Mapping[str, str]) -> requests.PreparedRequest:
        request = _without_body(self.method, self.url, (*credentials.items(), *self.headers)).copy()
        if self.body is not None:
            request.body = self.body
            request.headers["Content-Length"] = str(len(self.body))
        return request


@lru_cache(CACHED_REQUESTS)
def _without_body(method: str, url: str, headers: tuple[tuple[str, str], ...]) -> requests.PreparedRequest:
    """Cached, because parsing and checking the address and the headers costs more than the rest of a call."""
    all_headers = {
        **dict(headers),
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",  # compression would delay the events of a stream
        "User-Agent": f"gemini-bridge/{__version__}",
    }
    request = requests.Request(method, url, headers=all_headers).prepare()
    # A plain dictionary, because each call copies it; `prepare` has checked the headers.
    host = urlsplit(request.url or "").netloc.rpartition("@")[2]
    request.headers = {**request.headers, "Host": host}  # type: ignore[assignment]
    return request


class NetworkRoute(NamedTuple):
    """The proxy and the CA bundle of one upstream; empty: those of the environment."""

    proxy: str = ""
    ca_bundle: str = ""


OF_ENVIRONMENT = NetworkRoute()


class ConnectionPool:
    """Raises what `requests` raises if the address, the proxy or the CA bundle cannot be used."""

    def __init__(
        self, address: str, size: int, route: NetworkRoute = OF_ENVIRONMENT, server: str = GEMINI
    ) -> None:
        self._server = server
        self._adapter = HTTPAdapter(pool_connections=1, pool_maxsize=size)
        request = requests.Request("GET", address).prepare()
        with requests.Session() as session:
            settings = session.merge_environment_settings(address, {}, stream=True, verify=None, cert=None)
        self._proxies, verify = settings["proxies"], route.ca_bundle or ca_bundle().location
        if route.proxy:
            self._proxies = {"http": route.proxy, "https": route.proxy}
        pool: Any = self._adapter.get_connection_with_tls_context(request, verify, self._proxies)
        self._adapter.cert_verify(pool, request.url, verify, None)  # type: ignore[no-untyped-call]
        self._pool = pool
        proxied = pool.proxy is not None
        self._tunnelled = proxied and pool.scheme == "https"
        self._forwarded = proxied and not self._tunnelled

    def send(self, request: requests.PreparedRequest, timeouts: Timeouts) -> HttpResponse:
        """Return the response as soon as the request is written."""
        began = time.monotonic()
        with connection_errors_translated(self._server):
            connection = self._pool._get_conn()
            try:
                if connection.sock is None:  # a new connection, or the upstream closed it
                    self._open(connection, timeouts.connect)
                self._write(connection.sock, request)
                response = HttpResponse(connection, self._pool._put_conn, timeouts, self._server)
            except BaseException:
                connection.close()
                raise
        response.waited = time.monotonic() - began
        return response

    def _open(self, connection: Any, timeout: float) -> None:
        connection.timeout = timeout
        if self._tunnelled:
            pool = self._pool
            connection.set_tunnel(pool.host, pool.port, pool.proxy_headers, pool.proxy.scheme)
        connection.connect()

    def _write(self, sock: Any, request: requests.PreparedRequest) -> None:
        url, headers, body = request.path_url, request.headers, request.body
        if self._forwarded:
            url = self._adapter.request_url(request, self._proxies)
            headers = {**headers, **self._pool.proxy_headers}  # type: ignore[assignment]
        lines = [f"{request.method} {url} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        head = "\r\n".join((*lines, "", "")).encode("latin-1")
        try:
            _send(sock, head, body)  # type: ignore[arg-type]
        except (BrokenPipeError, ConnectionResetError):
            pass  # the upstream may have answered before it closed the connection
        except OSError as error:
            raise unreachable(error, self._server) from error


def _send(sock: Any, head: bytes, body: bytes | None) -> None:
    sock.settimeout(SEND_TIMEOUT)
    if body is None or len(body) <= LARGEST_COPIED:
        sock.sendall(head + (body or b""))
    else:
        sock.sendall(head)
        sock.sendall(body)


class PoolPerProcess:
    """A pool for each process: two processes on one TLS connection would garble it."""

    def __init__(
        self, address: str, pool_size: int, route: NetworkRoute = OF_ENVIRONMENT, server: str = GEMINI
    ) -> None:
        self._address = address
        self._server = server
        self._pool_size = pool_size
        self._route = route
        self._by_process: dict[int, ConnectionPool] = {}

    def of_this_process(self) -> ConnectionPool:
        process = os.getpid()
        pool = self._by_process.get(process)
        if pool is None:
            opened = ConnectionPool(self._address, self._pool_size, self._route, self._server)
            pool = self._by_process.setdefault(process, opened)
        return pool
