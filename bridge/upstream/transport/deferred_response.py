"""Connections of `requests` that do not wait: instead of an answer they give the promise of one.

`requests` keeps the pool, speaks TLS, and knows proxies and company CAs. But it waits for the head of an
answer inside one call, and who waits there can neither tell the client that we are still here nor notice that
it has gone. So its connections write the request and return a Promise, which urllib3 and `requests` pass on
unread. Opening a connection is theirs in every detail; over one that is open already their care would cost
more than all the rest of the call, and is passed by.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection

#: A large request over a slow line takes its time; the timeout for connecting must not cut it short.
LONGEST_SENDING = 60.0
#: A larger body is sent by itself: to copy it costs more than another call.
LARGEST_COPIED = 16_384


class DeferredResponse:
    """Has what urllib3 asks of an answer, and says nothing."""

    status = 0
    version_string = "HTTP/1.1"
    length_remaining = None
    headers: Mapping[str, str] = {}

    def __init__(self, connection: HTTPConnection, pool: HTTPConnectionPool | None = None) -> None:
        self.connection = connection
        self._pool: Any = pool  #: urllib3 says which it is, where it was asked

    def kept(self, *, lasting: bool) -> None:
        """The answer was read to its end; the connection may carry the next request, if it lasts."""
        if not lasting:
            self.connection.close()
        self._pool._put_conn(self.connection)


class _DeferredConnection(HTTPConnection):
    def request(self, method: str, url: str, body: Any = None, headers: Any = None, **_options: Any) -> None:
        if self.sock is None:
            self.connect()
        self.write(method, url, headers, body)

    def getresponse(self) -> Any:
        return DeferredResponse(self)

    def write(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> None:
        """The request, whose address and headers `requests` has checked."""
        lines = [f"{method} {url} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        head = "\r\n".join((*lines, "", "")).encode("latin-1")
        self.sock.settimeout(LONGEST_SENDING)
        with suppress(BrokenPipeError, ConnectionResetError):  # an answer may have come all the same
            if body is None or len(body) <= LARGEST_COPIED:
                self.sock.sendall(head + (body or b""))
            else:
                self.sock.sendall(head)
                self.sock.sendall(body)


class _DeferredTlsConnection(_DeferredConnection, HTTPSConnection):
    pass


class _ReusingPool(HTTPConnectionPool):
    """Sends over an open connection, where there is one."""

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, body: bytes | None = None, headers: Any = None, **options: Any
    ) -> Any:
        connection: Any = self._get_conn()
        forwarded = self.proxy is not None and self.scheme == "http"  # by a proxy that wants its own headers
        if forwarded or connection.sock is None:  # new, or closed from the other end
            self._put_conn(connection)
            return super().urlopen(method, url, body, headers, **options)
        connection.write(method, url, headers, body)
        return DeferredResponse(connection, self)


class _Pool(_ReusingPool):
    ConnectionCls = _DeferredConnection


class _TlsPool(_ReusingPool, HTTPSConnectionPool):
    ConnectionCls = _DeferredTlsConnection


class OwnPools(HTTPAdapter):
    """With connections of our own making."""

    pools: ClassVar[dict[str, type[HTTPConnectionPool]]]

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self.pools

    def proxy_manager_for(self, *args: Any, **options: Any) -> ProxyManager:
        manager: ProxyManager = super().proxy_manager_for(*args, **options)
        if type(manager) is ProxyManager:  # SOCKS has pools of its own, which wait
            manager.pool_classes_by_scheme = self.pools
        return manager


class _UnreadResponse(requests.Response):
    def __init__(self, promise: DeferredResponse) -> None:
        """Nothing of it is known yet; what `requests` would make up costs more than to send the request."""
        self.raw = promise


class DeferredAdapter(OwnPools):
    """To one address, so that the way there is looked for once."""

    pools: ClassVar = {"http": _Pool, "https": _TlsPool}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._pool: Any = None

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, verify: Any, proxies: Any = None, cert: Any = None
    ) -> Any:
        if self._pool is None:
            pool = super().get_connection_with_tls_context(request, verify, proxies, cert)
            super().cert_verify(pool, request.url, verify, cert)  # type: ignore[no-untyped-call]
            self._pool = pool
        return self._pool

    def cert_verify(self, *_told: Any) -> None:
        """Was done with the pool."""

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        return request.path_url if self._pool.proxy is None else super().request_url(request, proxies)

    def build_response(self, request: requests.PreparedRequest, answer: Any) -> requests.Response:
        return (
            _UnreadResponse(answer)
            if isinstance(answer, DeferredResponse)
            else super().build_response(request, answer)
        )
