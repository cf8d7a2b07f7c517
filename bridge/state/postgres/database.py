"""The database of all stores: a pool in each process, and a breaker for a server that does not answer.

The pool exists only while the server works. The first failure closes the pool, which wakes all threads that
wait for a connection; then every call fails at once, and one thread tries to connect until it succeeds.

A restart of the server breaks the idle connections of the pool. A call notices that before it sends anything:
it waits for a new pool, for as long as for a silent server, so the first call after a restart does not fail.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from bridge.settings.database_url import secrets_in
from bridge.state.errors import StorageError, StorageUnavailable
from bridge.state.postgres.connection import (
    CONNECT_TIMEOUT,
    Connection,
    LastSign,
    ServerSilent,
    connect,
    describe,
)
from bridge.state.postgres.errors import server_failed, storage_error
from bridge.state.store import SERVING_PATIENCE, Store, StoreCheck, StoreHealth

log = logging.getLogger(__name__)
logging.getLogger("psycopg").setLevel(logging.ERROR)  # this module reports failures itself

T = TypeVar("T")
Values = Sequence[Any] | Mapping[str, Any]
Work = Callable[[Connection], T]

READ_ONLY = (
    "the server accepts no changes: it is a replica, or default_transaction_read_only is on; name the "
    "primary server in BRIDGE_STATE_URL, or let this one write again"
)
MOST_CONNECTIONS = 4
#: Seconds to wait while all connections are busy with a server that answers. A server that sends nothing on
#: any of them for as long as the caller's patience is taken for silent.
BUSY_TIMEOUT = 3.0
#: Seconds between attempts to connect: the first pause, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 2.0

#: Pools of the parent process. The child must not close their connections.
_INHERITED: list[ConnectionPool[Connection]] = []


class Database:
    def __init__(self, url: str, patience: float = SERVING_PATIENCE) -> None:
        """`patience`: seconds to wait for a server that does not answer."""
        self.url = url
        self.patience = patience
        self.secrets = secrets_in(url)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Connection] | None = None
        self._last_sign = LastSign()
        self._busy: set[Connection] = set()  #: those that calls use at the moment
        self._connector: threading.Thread | None = None
        self._attempted = threading.Event()  #: set when the first attempt to connect has ended
        self._wait_until = 0.0  #: callers wait for that attempt until then
        self._failure: StorageError | None = None
        self._reported = False  #: whether the log says that the database is not used
        self._outages = 0
        self.closed = False

    @property
    def location(self) -> str:
        return describe(self.url)

    # --- statements ----------------------------------------------------------------------------------

    def run(self, query: str, values: Values = (), *, patience: float | None = None) -> list[TupleRow]:
        """One statement, which is a transaction of its own. Returns its rows."""
        with self._connection(patience) as connection:
            cursor = connection.execute(query, values)
            return [] if cursor.rownumber is None else cursor.fetchall()

    def changed(self, query: str, values: Values = ()) -> int:
        """The number of rows that one statement changed."""
        with self._connection(None) as connection:
            return connection.execute(query, values).rowcount

    def transaction(self, work: Work[T], *, patience: float | None = None) -> T:
        with self._connection(patience) as connection, connection.transaction():
            return work(connection)

    @contextmanager
    def _connection(self, patience: float | None) -> Iterator[Connection]:
        patience = patience or self.patience
        pool, connection = self._live_connection(patience)
        try:
            connection.patience = patience
            self._busy.add(connection)
            yield connection
        except psycopg.Error as error:
            if server_failed(error):
                self._fail(pool, storage_error(self.location, error, self.secrets))
            raise storage_error(self.location, error, self.secrets) from error
        finally:
            self._busy.discard(connection)
            pool.putconn(connection)

    def _live_connection(self, patience: float) -> tuple[ConnectionPool[Connection], Connection]:
        """A connection that the server has not closed. If it has, all idle connections are old, and one
        of the threads that notice it replaces the pool."""
        for _ in range(2):
            pool = self._usable_pool()
            with suppress(PoolClosed):
                connection = self._taken(pool, patience)
                if connection.is_live():
                    return pool, connection
                pool.putconn(connection)
                self._replace(pool)
        pool = self._usable_pool()
        try:
            return pool, self._taken(pool, patience)
        except PoolClosed as error:
            raise storage_error(self.location, error, self.secrets) from error

    def _taken(self, pool: ConnectionPool[Connection], patience: float) -> Connection:
        """Raises PoolClosed if another thread replaced the pool."""
        give_up_at = time.monotonic() + BUSY_TIMEOUT
        while True:
            began = time.monotonic()
            try:
                return pool.getconn(min(patience, BUSY_TIMEOUT))
            except PoolTimeout as error:
                if self._last_sign.at < began and not self._unread():
                    silent = ServerSilent(f"no answer for {patience * 1000:.0f} ms, and no free connection")
                    failure = storage_error(self.location, silent, self.secrets)
                    self._fail(pool, failure)
                    raise failure from error
                if time.monotonic() >= give_up_at:
                    raise storage_error(self.location, error, self.secrets) from error

    def _unread(self) -> bool:
        """Whether the server has answered, and the machine is too busy for the thread that waits for it."""
        return any(not connection.is_live() for connection in list(self._busy) if not connection.closed)

    # --- breaker -------------------------------------------------------------------------------------

    @property
    def working(self) -> bool:
        """Whether calls reach the server at the moment."""
        return self._pool is not None

    @property
    def away(self) -> bool:
        """Whether calls fail without an attempt, because an attempt failed."""
        return self._pool is None and self._failure is not None

    def prepare(self) -> None:
        """Connect before the first request comes, and wait for the first attempt."""
        self._start_connecting()
        self._attempted.wait(CONNECT_TIMEOUT)

    def health(self) -> StoreHealth:
        pool = self._pool
        found = pool.get_stats() if pool is not None else {}
        size = found.get("pool_size", 0)
        return StoreHealth(self.away, size - found.get("pool_available", 0), size, self._outages)

    def _usable_pool(self) -> ConnectionPool[Connection]:
        if self._process != os.getpid():
            _INHERITED.extend(filter(None, [self._pool]))
            self._begin()
        if (pool := self._pool) is not None:
            return pool
        self._start_connecting()
        self._attempted.wait(max(0.0, self._wait_until - time.monotonic()))
        if (pool := self._pool) is not None:
            return pool
        failure = self._failure
        if failure is not None and not isinstance(failure, StorageUnavailable):
            raise type(failure)(str(failure), failure.reason)
        reason = failure.reason if failure else "no connection yet"
        raise StorageUnavailable(f"{self.location} cannot be used: {reason}", reason)

    def _fail(self, pool: ConnectionPool[Connection], failure: StorageError) -> None:
        with self._lock:
            if self._pool is not pool:
                return  # another thread reported it
            self._pool, self._failure = None, failure
        self._report(failure)
        pool.close(timeout=0)
        self._start_connecting()

    def _replace(self, pool: ConnectionPool[Connection]) -> None:
        """The server closed the connections. Callers wait for the first attempt to connect again."""
        with self._lock:
            if self._pool is not pool:
                return
            self._pool, self._failure = None, None
            self._attempted.clear()
        pool.close(timeout=0)
        self._start_connecting()

    def _report(self, failure: StorageError) -> None:
        """Once for each outage."""
        with self._lock:
            if self._reported:
                return
            self._reported = True
            self._outages += 1
        log.warning("the database is not used until it answers again", extra={"reason": failure.reason})

    def _start_connecting(self) -> None:
        with self._lock:
            if self._connector is not None or self._pool is not None or self.closed:
                return
            at_once = self._failure is None
            if at_once:
                self._wait_until = time.monotonic() + self.patience
            self._connector = threading.Thread(
                target=_keep_connecting, args=(weakref.ref(self), at_once), name="database", daemon=True
            )
            self._connector.start()

    def connect(self) -> bool:
        """Make a pool. True if there is one, or if none is wanted any more."""
        try:
            pool = _opened_pool(self.url, self._last_sign)
        except StorageError as failure:
            self._failure = failure
        except psycopg.Error as error:
            self._failure = storage_error(self.location, error, self.secrets)
        else:
            self._install(pool)
            return True
        self._report(self._failure)
        self._attempted.set()
        return self.closed

    def _install(self, pool: ConnectionPool[Connection]) -> None:
        with self._lock:
            self._pool, self._connector = (None if self.closed else pool), None
        if self.closed:
            pool.close(timeout=0)
            return
        if self._reported:
            self._reported = False
            log.warning("the database is used again")
        self._attempted.set()

    def close(self) -> None:
        """End the connections and the pool's threads, for example before a fork."""
        with self._lock:
            self.closed, pool, self._pool = True, self._pool, None
        if pool is not None and self._process == os.getpid():
            pool.close(timeout=1.0)

    def __del__(self) -> None:
        self.close()


def _opened_pool(url: str, last_sign: LastSign) -> ConnectionPool[Connection]:
    """A pool with its first connection. The pool itself would not say why it cannot connect."""
    connection, options = connect(url)

    def share_sign(made: Connection) -> None:
        made.last_sign = last_sign

    with connection:
        if connection.execute("SHOW transaction_read_only").fetchone() == ("on",):
            raise psycopg.errors.ReadOnlySqlTransaction(READ_ONLY)
    pool = ConnectionPool(
        connection_class=Connection,
        kwargs=options,
        min_size=1,
        max_size=MOST_CONNECTIONS,
        timeout=BUSY_TIMEOUT,
        num_workers=1,
        configure=share_sign,
        open=False,
        name="state",
    )
    pool.open(wait=True, timeout=CONNECT_TIMEOUT + SERVING_PATIENCE)
    return pool


def _keep_connecting(found: weakref.ref[Database], at_once: bool) -> None:
    pause = 0.0 if at_once else FIRST_PAUSE
    while True:
        time.sleep(pause)
        database = found()
        if database is None or database.connect():
            return
        del database
        pause = min(max(pause * 2, FIRST_PAUSE), LONGEST_PAUSE)


class PostgresStore(Store):
    """The part of a store that is the same for every table. `tables`: those of the store, the main one
    first."""

    name: str
    tables: tuple[str, ...]

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def location(self) -> str:
        return f"{self._database.location} ({self.name})"

    @property
    def away(self) -> bool:
        return self._database.away

    def check(self) -> StoreCheck:
        exists = " OR ".join(f"EXISTS (SELECT 1 FROM gemini_bridge.{table})" for table in self.tables)
        try:
            ((found,),) = self._database.run(f"SELECT {exists}")
        except StorageError as error:
            return StoreCheck(self.name, True, error.reason, str(error))
        return StoreCheck(self.name, bool(found))
