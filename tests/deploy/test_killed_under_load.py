"""A bridge, the database or both are killed under load: no usage is lost, and budgets are exact."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from certificates import needs_openssl
from nginx_proxy import NGINX
from postgres_server import PostgresServer, postgres_server
from scripted_gemini import Reply, sse, text_chunk
from two_bridges import Client, Company, kill, started, two_bridges
from waiting import eventually

from bridge.state.sqlite.waiting_rows import SqliteWaitingRows

pytestmark = [pytest.mark.skipif(NGINX is None, reason="nginx is not installed"), needs_openssl]

CLIENTS = 8
#: Of each answer of the scripted upstream.
TOKENS = 7
#: The same budgets and more limits than the load reaches, so that every kind of count is used.
LIMITS = ("--tokens-per-day", "100000000", "--tpm", "100000000", "--rpm", "1000000", "--streams", "1000")


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    """A server of its own, which waits for the disk."""
    with postgres_server(fsync="on") as running:
        yield running


@pytest.fixture
def company(database: PostgresServer, tmp_path: Path) -> Iterator[Company]:
    with two_bridges(database, tmp_path) as made:
        made.gemini.will_answer(lambda _asked: Reply(sse(text_chunk("Hello", "STOP"))))
        yield made


def has_its_end(client: Client, session: str) -> bool:
    """Whether the client received the last event of a streamed answer, even if the connection broke then."""
    ended = False
    with suppress(requests.RequestException):
        for line in client.ask(session, stream=True).iter_lines():
            ended = ended or line.startswith(b"event: response.completed")
    return ended


@contextmanager
def load(client: Client) -> Iterator[list[bool]]:
    """Clients that stream one answer after the other. Yields which of them had their end."""
    answers: list[bool] = []
    over = threading.Event()

    def work(number: int) -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            answers.append(has_its_end(client, f"session-{number}-{turn}"))

    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(work, number) for number in range(CLIENTS)]
        try:
            yield answers
        finally:
            over.set()
        for each in running:
            each.result()


def grown(answers: list[bool], number: int = 100) -> bool:
    """Wait for further complete answers."""
    before = sum(answers)
    return eventually(lambda: sum(answers) > before + number, 30)


def waiting_rows(company: Company) -> int:
    """What the database does not have yet."""
    names = ("usage_waiting.sqlite3", "limits_waiting.sqlite3")
    return sum(
        SqliteWaitingRows(bridge.state / name).count()
        for bridge in company.bridges.values()
        for name in names
    )


@dataclass
class Books:
    """What the database has of the load."""

    database: PostgresServer
    company: Company

    def number(self, query: str) -> int:
        with self.database.connection(self.company.url.rpartition("/")[2]) as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return int(row[0] or 0)

    def rows(self) -> int:
        return self.number("SELECT count(*) FROM gemini_bridge.request WHERE outcome = 'completed'")

    def requests_of_days(self) -> int:
        return self.number("SELECT sum(requests - failed - client_left) FROM gemini_bridge.usage_day")

    def tokens_of_rows(self) -> int:
        return self.number("SELECT sum(input + cached + output + reasoning) FROM gemini_bridge.request")

    def tokens_of_budgets(self) -> int:
        return self.number("SELECT sum(tokens) FROM gemini_bridge.day")

    def leases(self) -> int:
        now = "extract(epoch FROM clock_timestamp())"
        return self.number(f"SELECT count(*) FROM gemini_bridge.running WHERE until > {now}")


@pytest.mark.parametrize("killed", ["a bridge", "the database", "both"])
def test_no_usage_is_lost_and_the_budgets_are_exact(
    company: Company, database: PostgresServer, killed: str
) -> None:
    client, two = company.client(*LIMITS).front, company.bridges["two"]
    with load(client) as answers:
        assert grown(answers)
        if killed != "a bridge":
            database.kill()
        if killed != "the database":
            kill(two)
        time.sleep(1)
        if killed != "a bridge":
            database.start()
        assert grown(answers)
    with ExitStack() as stack:
        if killed != "the database":  # the machine comes back, with its state folder
            port, state = int(two.address.rpartition(":")[2]), str(two.state)
            started(stack, company.url, company.gemini, "two", port, BRIDGE_STATE_DIR=state)
        assert eventually(lambda: waiting_rows(company) == 0)
    books = Books(database, company)
    assert sum(answers) <= books.rows() <= sum(answers) + CLIENTS
    assert books.requests_of_days() == books.rows()
    assert books.tokens_of_budgets() == books.tokens_of_rows() >= books.rows() * TOKENS
    assert eventually(lambda: books.leases() == 0)
