"""Connections of `requests` that do not wait: instead of an answer they give the promise of one.

`requests` keeps the pool, speaks TLS, and knows proxies and company CAs. But it waits for the head of an
answer inside one call, and who waits there can neither tell the client that we are still here nor notice that
it has gone. So its connections send the request and return a Promise, which urllib3 and `requests` pass on
unread. The head is handed to http.client once it has come, by way of a socket that knows nothing but those
bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPException
from io import BytesIO
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.response import HTTPResponse

#: A large request over a slow line takes its time; the timeout for connecting must not cut it short.
LONGEST_SENDING = 60.0


class Promise:
    """Has what urllib3 and `requests` ask of an answer, and says nothing."""

    status = 0
    reason = ""
    version_string = "HTTP/1.1"
    length_remaining = None
    headers: Mapping[str, str] = {}

    def __init__(self, connection: _Promising) -> None:
        self.connection = connection
        self.retries: Any = None
        self._pool: Any = None
        self._connection: Any = None

    def kept(self, head: bytes) -> HTTPResponse:
        """The answer that begins with these bytes. Its body is not here: that is read from the socket."""
        answer = self.connection.answered(head)
        answer.retries = self.retries
        answer._pool = self._pool
        answer._connection = self._connection
        return answer


class _HeadAlone:
    """A socket on which nothing but an answer's head has come."""

    def __init__(self, head: bytes) -> None:
        self._head = head

    def makefile(self, _mode: str) -> BytesIO:
        return BytesIO(self._head)

    def settimeout(self, _seconds: float | None) -> None:
        pass

    def close(self) -> None:
        pass


class _Promising(HTTPConnection):
    def request(self, *args: Any, **options: Any) -> None:
        if self.sock is None:
            self.connect()
        self.timeout = LONGEST_SENDING
        super().request(*args, **options)

    def getresponse(self) -> Any:
        return Promise(self)

    def answered(self, head: bytes) -> HTTPResponse:
        connected, self.sock = self.sock, _HeadAlone(head)
        try:
            answer = HTTPConnection.getresponse(self)
        except (HTTPException, ValueError) as error:
            raise HTTPException(str(error)) from error
        finally:
            self.sock = connected
        assert isinstance(answer, HTTPResponse)
        return answer


class _PromisingTls(_Promising, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Promising


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _PromisingTls


_POOLS = {"http": _Pool, "https": _TlsPool}


class PromisingAdapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> ProxyManager:
        manager: ProxyManager = super().proxy_manager_for(*args, **options)
        if type(manager) is ProxyManager:  # SOCKS has pools of its own, which wait
            manager.pool_classes_by_scheme = _POOLS
        return manager
