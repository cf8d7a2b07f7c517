"""A grip on the socket of a call that waits in another thread: to let go of it ends the call.

Who waits for bytes is not woken by closing the connection, but by shutting its socket down. `requests` does
not show the socket before the answer's head has come, so its connections tell.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import Any, ClassVar

import requests
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from bridge.upstream.transport.deferred_response import OwnPools
from bridge.upstream.transport.http_response import Timeouts

MARGIN = 5.0

_IN_FORCE: ContextVar[SocketHolder | None] = ContextVar("grip", default=None)


class SocketHolder:
    """Calls made in its context, in one thread, are held by it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: Any = None
        self._let_go = False

    def __enter__(self) -> None:
        self._mark: Token[SocketHolder | None] = _IN_FORCE.set(self)

    def __exit__(self, *_error: object) -> None:
        _IN_FORCE.reset(self._mark)
        with self._lock:
            self._socket = None  # back in the pool, it may carry somebody else's call

    def take(self, socket: Any) -> None:
        with self._lock:
            self._socket = socket
            self._shut_down()

    def let_go(self) -> None:
        """May be called from any thread, and more than once."""
        with self._lock:
            self._let_go = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._let_go and self._socket is not None:
            with suppress(OSError, ValueError):
                self._socket.shutdown(2)


class _CancellableConnection(HTTPConnection):
    def request(self, *args: Any, **options: Any) -> None:
        if self.sock is None:
            self.connect()
        if (holder := _IN_FORCE.get()) is not None:
            holder.take(self.sock)
        super().request(*args, **options)


class _CancellableTlsConnection(_CancellableConnection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _CancellableConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _CancellableTlsConnection


class CancellableAdapter(OwnPools):
    """It has its own mind about waiting too: the package knows one timeout for all of it. A call that is held
    is given up by who holds it, so that its own patience must only be the longer one."""

    pools: ClassVar = {"http": _Pool, "https": _TlsPool}

    def __init__(self, timeouts: Timeouts, pool_size: int) -> None:
        super().__init__(pool_connections=1, pool_maxsize=pool_size, max_retries=0)
        self._connect = timeouts.connect
        self._longest = max(timeouts.first_byte, timeouts.between) + MARGIN

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        patience = options.get("timeout") if _IN_FORCE.get() is None else self._longest
        return super().send(request, **{**options, "timeout": (self._connect, patience)})
