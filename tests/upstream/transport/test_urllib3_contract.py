"""The bridge's assumptions about urllib3's private methods; an incompatible urllib3 fails here first."""

from __future__ import annotations

import inspect
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

BRIDGE = Path(__file__).parents[3] / "bridge"
#: Each private method with the parameters that the bridge relies on.
ASSUMED = {"_get_conn": ["self", "timeout"], "_put_conn": ["self", "conn"]}


@pytest.fixture
def pool() -> Iterator[Any]:
    """A pool as `requests` makes it, to a server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        adapter = HTTPAdapter(pool_maxsize=2)
        pool = adapter.poolmanager.connection_from_host("127.0.0.1", server.getsockname()[1], "http")
        yield pool
        pool.close()


@pytest.mark.parametrize("name", ASSUMED)
def test_the_private_methods_keep_their_signatures(name: str) -> None:
    assert list(inspect.signature(getattr(HTTPConnectionPool, name)).parameters) == ASSUMED[name]


def test_one_file_holds_all_uses_of_private_methods() -> None:
    used = re.compile(rf"\.(?:{'|'.join(ASSUMED)})\b")
    found = [path.name for path in BRIDGE.rglob("*.py") if used.search(path.read_text())]
    assert found == ["connection_pool.py"]


def test_a_new_connection_is_not_open_yet(pool: Any) -> None:
    connection = pool._get_conn()
    assert isinstance(connection, HTTPConnection)
    assert connection.sock is None


def test_a_connection_that_was_put_back_is_the_next_one(pool: Any) -> None:
    connection = pool._get_conn()
    connection.connect()
    sock = connection.sock
    pool._put_conn(connection)
    assert pool._get_conn() is connection
    assert connection.sock is sock
    connection.close()


def test_a_connection_that_the_other_side_closed_comes_without_a_socket(pool: Any) -> None:
    connection = pool._get_conn()
    connection.connect()
    connection.sock.shutdown(socket.SHUT_RDWR)
    pool._put_conn(connection)
    assert pool._get_conn() is connection
    assert connection.sock is None


def test_a_pool_gives_more_connections_than_it_keeps(pool: Any) -> None:
    assert len({id(each) for each in [pool._get_conn() for _ in range(5)]}) == 5
