"""A connection that does not wait for a server that has stopped answering."""

from __future__ import annotations

import select
import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from psycopg.types.string import StrDumperUnknown
from psycopg.waiting import Ready, Wait

from bridge.state.errors import DatabaseUnfit
from bridge.state.store import SERVING_PATIENCE

T = TypeVar("T")
C = TypeVar("C", bound=psycopg.Connection[Any])

#: Limits on the server's side, in milliseconds. A session is never idle in a transaction for long.
_SERVER_LIMITS = {
    "statement_timeout": 10_000,
    "lock_timeout": 200,
    "idle_in_transaction_session_timeout": 10_000,
}
#: So that a dead machine is noticed by the kernel too, for connections that nobody uses.
_KEEPALIVES = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 5_000,
}
#: Seconds. libpq waits for two at least.
CONNECT_TIMEOUT = 2

_POLLED = {Wait.R: select.POLLIN, Wait.W: select.POLLOUT, Wait.RW: select.POLLIN | select.POLLOUT}


class ServerSilent(psycopg.OperationalError):
    """The server has neither taken nor sent a byte for longer than the connection's patience."""


class _TextDumper(StrDumperUnknown):
    """PostgreSQL's texts cannot hold a zero character or half of a surrogate pair, and clients send both."""

    def dump(self, obj: str) -> Buffer | None:
        return obj.replace("\x00", "\ufffd").encode("utf-8", "replace")


_ADAPTERS = AdaptersMap(psycopg.adapters)
_ADAPTERS.register_dumper(str, _TextDumper)


class LastSign:
    """When the server last sent something, over any of the connections that share this object."""

    def __init__(self) -> None:
        self.at = time.monotonic()


class Connection(psycopg.Connection[TupleRow]):
    patience = SERVING_PATIENCE
    last_sign: LastSign | None = None

    def wait(self, gen: PQGen[T], interval: float = 0.0, timeout: float | None = None) -> T:
        """Like psycopg's own, with a limit on the silence of the server instead of on the whole time: a large
        answer takes as long as it takes."""
        milliseconds = round((timeout or self.patience) * 1000)
        poll = select.poll()
        try:
            poll.register(self.pgconn.socket, _POLLED[next(gen)])
            while True:
                events = poll.poll(milliseconds)
                if not events:
                    self.close()
                    raise ServerSilent(f"no answer for {milliseconds} ms")
                if self.last_sign is not None and events[0][1] & select.POLLIN:
                    self.last_sign.at = time.monotonic()
                poll.modify(events[0][0], _POLLED[gen.send(_ready(events[0][1]))])
        except StopIteration as ended:
            value: T = ended.value
            return value

    def is_live(self) -> bool:
        """Whether the server keeps the connection open. Sends nothing: an idle server has nothing to say."""
        if self.closed:
            return False
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        return not poll.poll(0)


def _ready(events: int) -> Ready:
    """An error of the socket counts as readable: reading then raises it."""
    readable = Ready.R if events & ~select.POLLOUT else Ready.NONE
    return Ready(readable | (Ready.W if events & select.POLLOUT else Ready.NONE))


def connection_options(url: str, *, limits: bool = True) -> dict[str, Any]:
    """What psycopg is called with. `limits`: false for a PgBouncer that refuses them."""
    given = _parsed(url)
    known: dict[str, Any] = {"application_name": "gemini-bridge", **_KEEPALIVES, **given}
    if limits:
        wanted = " ".join(f"-c {name}={value}" for name, value in _SERVER_LIMITS.items())
        known["options"] = f"{wanted} {given.get('options', '')}".strip()
    fixed = {"autocommit": True, "prepare_threshold": None, "connect_timeout": CONNECT_TIMEOUT}
    return {**known, **fixed, "client_encoding": "utf8", "context": _ADAPTERS}


def connect(url: str) -> tuple[Connection, dict[str, Any]]:
    """A connection, and the options with which others can be made."""
    return connect_as(Connection, url)


def connect_as(kind: type[C], url: str) -> tuple[C, dict[str, Any]]:
    options = connection_options(url)
    try:
        return kind.connect(**options), options
    except psycopg.OperationalError as error:
        if "unsupported startup parameter" not in str(error):
            raise
    options = connection_options(url, limits=False)  # a PgBouncer, which lets no client set them
    return kind.connect(**options), options


def describe(url: str) -> str:
    """The database in words for the operator, without password."""
    given = _parsed(url)
    place = f"{given.get('host', '')}:{given.get('port', 5432)}"
    return f"postgresql://{place}/{given.get('dbname', given.get('user', ''))}"


def _parsed(url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # psycopg's message may quote the password.
        raise DatabaseUnfit(
            "BRIDGE_STATE_URL cannot be parsed: write postgresql://user:password@host:5432/database, with "
            "%XX for special characters in the password; after a question mark only libpq's own parameters"
        ) from None
