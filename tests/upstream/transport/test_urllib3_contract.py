"""The bridge's assumptions about urllib3's private methods; an incompatible urllib3 fails here first."""

from __future__ import annotations

import inspect
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from bridge.upstream.transport.deferred_response import DeferredAdapter, DeferredResponse

BRIDGE = Path(__file__).parents[3] / "bridge"
#: Each private method with the parameters that the bridge relies on.
ASSUMED = {"_get_conn": ["self", "timeout"], "_put_conn": ["self", "conn"]}


@pytest.fixture
def pool() -> Iterator[Any]:
    """A pool of the bridge's connections to a server that accepts and stays silent."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        adapter = DeferredAdapter(pool_maxsize=2)
        pool = adapter.poolmanager.connection_from_host("127.0.0.1", server.getsockname()[1], "http")
        yield pool
        pool.close()


def asked(pool: Any) -> DeferredResponse:
    """Request a connection like `requests` does."""
    options = {"preload_content": False, "redirect": False, "retries": False, "assert_same_host": False}
    response: DeferredResponse = pool.urlopen("GET", "/", headers={}, **options)
    return response


@pytest.mark.parametrize("name", ASSUMED)
def test_the_private_methods_keep_their_signatures(name: str) -> None:
    assert list(inspect.signature(getattr(HTTPConnectionPool, name)).parameters) == ASSUMED[name]


def test_one_file_holds_all_uses_of_private_methods() -> None:
    used = re.compile(rf"\.(?:{'|'.join(ASSUMED)})\b")
    found = [path.name for path in BRIDGE.rglob("*.py") if used.search(path.read_text())]
    assert found == ["deferred_response.py"]


def test_a_new_connection_is_not_open_yet(pool: Any) -> None:
    connection = pool._get_conn()
    assert isinstance(connection, HTTPConnection)
    assert connection.sock is None


def test_urllib3_passes_the_deferred_response_on_and_names_its_pool(pool: Any) -> None:
    response = asked(pool)
    assert isinstance(response, DeferredResponse)
    assert response._pool is pool
    assert response.connection.sock is not None
    response.connection.close()


def test_a_connection_that_was_put_back_is_the_next_one(pool: Any) -> None:
    response = asked(pool)
    response.kept(lasting=True)
    again = asked(pool)
    assert again.connection is response.connection
    assert pool.num_connections == 1
    again.connection.close()


def test_a_closed_connection_that_was_put_back_is_opened_anew(pool: Any) -> None:
    response = asked(pool)
    first = response.connection.sock
    response.kept(lasting=False)
    again = asked(pool)
    assert again.connection.sock is not first
    again.connection.close()
