"""Cancels a call of `requests` that waits in another thread, by shutting down its socket.

Closing a socket does not wake a thread that reads from it; a shutdown does. `requests` does not expose the
socket before the head of the response has arrived, so the connections here give theirs to a SocketHolder.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import Any, ClassVar

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from bridge.upstream.transport.http_response import Timeouts

MARGIN = 5.0

_ACTIVE: ContextVar[SocketHolder | None] = ContextVar("active_socket_holder", default=None)


class SocketHolder:
    """Holds the socket of each call that this thread makes inside `with holder:`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: Any = None
        self._cancelled = False

    def __enter__(self) -> None:
        self._token: Token[SocketHolder | None] = _ACTIVE.set(self)

    def __exit__(self, *_error: object) -> None:
        _ACTIVE.reset(self._token)
        with self._lock:
            self._socket = None  # in the pool again: another call may use it

    def take(self, socket: Any) -> None:
        with self._lock:
            self._socket = socket
            self._shut_down()

    def cancel(self) -> None:
        """May be called from any thread, and more than once."""
        with self._lock:
            self._cancelled = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._cancelled and self._socket is not None:
            with suppress(OSError, ValueError):
                self._socket.shutdown(2)


class _CancellableConnection(HTTPConnection):
    def request(self, *args: Any, **options: Any) -> None:
        if self.sock is None:
            self.connect()
        if (holder := _ACTIVE.get()) is not None:
            holder.take(self.sock)
        super().request(*args, **options)


class _CancellableTlsConnection(_CancellableConnection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _CancellableConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _CancellableTlsConnection


class CancellableAdapter(HTTPAdapter):
    """An adapter with these pools and two timeouts; the package knows only one timeout for a whole call.

    The owner of a SocketHolder ends the calls inside it, so their own timeout is only a longer backup.
    """

    _POOLS: ClassVar[dict[str, type[HTTPConnectionPool]]] = {"http": _Pool, "https": _TlsPool}

    def __init__(self, timeouts: Timeouts, pool_size: int) -> None:
        super().__init__(pool_connections=1, pool_maxsize=pool_size, max_retries=0)
        self._connect = timeouts.connect
        self._longest = max(timeouts.first_byte, timeouts.between) + MARGIN

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self._POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> ProxyManager:
        manager: ProxyManager = super().proxy_manager_for(*args, **options)
        if type(manager) is ProxyManager:  # a SOCKS proxy needs the pools of its own manager
            manager.pool_classes_by_scheme = self._POOLS
        return manager

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        read_timeout = options.get("timeout") if _ACTIVE.get() is None else self._longest
        return super().send(request, **{**options, "timeout": (self._connect, read_timeout)})
