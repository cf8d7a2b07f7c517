"""The line to an API: one process's connections, and the calls that go over them.

Requests are prepared here and handed straight to the transport adapter: `Session.request` would read the
environment and merge cookies for each call, at twice the CPU. Proxies and the CA bundle are read from the
environment once, by the same rules.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import requests

from bridge import __version__
from bridge.upstream.transport.deferred_response import DeferredAdapter
from bridge.upstream.transport.http_response import HttpResponse, Timeouts, read_response

REMEMBERED_ADDRESSES = 256


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    method: str
    url: str
    timeouts: Timeouts
    body: bytes | None = None
    model: str = ""
    quota: str = ""  #: what a key that has no more of it rests for, where that is not the model
    headers: tuple[tuple[str, str], ...] = ()  #: beside the credentials
    conversation: str = ""  #: what it belongs to, if it belongs to one

    def prepared(self, credentials: Mapping[str, str]) -> requests.PreparedRequest:
        request = _without_body(self.method, self.url, (*credentials.items(), *self.headers)).copy()
        if self.body is not None:
            request.body = self.body
            request.headers["Content-Length"] = str(len(self.body))
        return request


@lru_cache(REMEMBERED_ADDRESSES)
def _without_body(method: str, url: str, headers: tuple[tuple[str, str], ...]) -> requests.PreparedRequest:
    """Address and headers are taken apart and checked once: it costs more than the rest of a request."""
    all_headers = {
        **dict(headers),
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",  # compression would hold back what is there to be shown
        "User-Agent": f"gemini-bridge/{__version__}",
    }
    request = requests.Request(method, url, headers=all_headers).prepare()
    # A plain dictionary now that they are checked: a copy of it is made for each call.
    host = urlsplit(request.url or "").netloc.rpartition("@")[2]
    request.headers = {**request.headers, "Host": host}  # type: ignore[assignment]
    return request


@dataclass(frozen=True, slots=True)
class Connections:
    adapter: DeferredAdapter
    settings: Mapping[str, Any]  #: `proxies`, `verify`, `cert`, `stream`, as `send` takes them

    @classmethod
    def open(cls, address: str, pool_size: int) -> Connections:
        # Whoever asked decides about a second try; urllib3 must not repeat a request.
        adapter = DeferredAdapter(pool_connections=1, pool_maxsize=pool_size, max_retries=0)
        with requests.Session() as session:
            settings = session.merge_environment_settings(address, {}, stream=True, verify=None, cert=None)
        return cls(adapter, settings)

    def send(self, request: requests.PreparedRequest, timeouts: Timeouts) -> HttpResponse:
        timeout, began = (timeouts.connect, timeouts.first_byte), time.monotonic()
        response = read_response(self.adapter.send(request, timeout=timeout, **self.settings), timeouts)
        response.waited = time.monotonic() - began
        return response


class ConnectionsPerProcess:
    """A line for each process: two processes on one TLS connection garble it."""

    def __init__(self, address: str, pool_size: int) -> None:
        self._address = address
        self._pool_size = pool_size
        self._by_process: dict[int, Connections] = {}

    def of_this_process(self) -> Connections:
        process = os.getpid()
        line = self._by_process.get(process)
        return line or self._by_process.setdefault(process, Connections.open(self._address, self._pool_size))
