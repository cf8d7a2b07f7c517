"""The ways in which a database goes away, with a real server behind a proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import psycopg
from gunicorn_bridge import free_port
from postgres_server import PostgresServer
from tcp_proxy import TcpProxy

#: The tables that every kind of write touches.
WRITTEN = (
    "request",
    "answer",
    "day",
    "second",
    "running",
    "settlement",
    "bridge_node",
    "event_batch",
    "signature",
)


@dataclass
class SharedDatabase:
    server: PostgresServer
    proxy: TcpProxy
    name: str

    @property
    def url(self) -> str:
        """The address behind the proxy, as a bridge gets it."""
        return self.server.url(self.name).replace(f":{self.server.port}/", f":{self.proxy.port}/")

    def run(self, query: str) -> list[tuple[object, ...]]:
        """Past the proxy, and on a server that is read-only."""
        url = self.server.url(self.name) + "?options=-cdefault_transaction_read_only%3Doff"
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def _stopped(database: SharedDatabase) -> Iterator[None]:
    database.server.stop()
    try:
        yield
    finally:
        database.server.start()


@contextmanager
def _failing_over(database: SharedDatabase) -> Iterator[None]:
    """The server is killed and starts again at another address, to which the proxy leads then."""
    database.server.kill()
    try:
        yield
    finally:
        database.server.port = database.proxy.target = free_port()
        database.server.start()


@contextmanager
def _full(database: SharedDatabase) -> Iterator[None]:
    """Every write fails with the error of a full disk. Reading works, as on a full disk."""
    database.run(
        "CREATE OR REPLACE FUNCTION disk_is_full() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$"
    )
    for table in WRITTEN:
        database.run(
            f"CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON gemini_bridge.{table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION disk_is_full()"
        )
    try:
        yield
    finally:
        for table in WRITTEN:
            database.run(f"DROP TRIGGER full_disk ON gemini_bridge.{table}")


@contextmanager
def _read_only(database: SharedDatabase) -> Iterator[None]:
    database.run("ALTER SYSTEM SET default_transaction_read_only = on")
    database.run("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        database.run("ALTER SYSTEM RESET default_transaction_read_only")
        database.run("SELECT pg_reload_conf()")


class Outage(NamedTuple):
    begin: Callable[[SharedDatabase], AbstractContextManager[None]]
    readable: bool = False  #: the bridge can still read the database


OUTAGES = {
    "stopped": Outage(_stopped),
    "paused": Outage(lambda database: database.server.paused()),
    "cut": Outage(lambda database: database.proxy.stalled()),
    "full": Outage(_full, readable=True),
    "read_only": Outage(_read_only),
    "failing_over": Outage(_failing_over),
}
