"""Checks of the PostgreSQL database, against a real server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest
from gunicorn_bridge import free_port
from postgres_server import PASSWORD, PostgresServer, postgres_server

from bridge.cli import main
from bridge.doctor import database
from bridge.doctor.checks import CHECKS
from bridge.doctor.database import check_database_clock, check_database_connections, check_database_server
from bridge.doctor.finding import Finding, Installation, Level
from bridge.state.postgres.migrations import upgrade
from bridge.state.stores import measure_database

CHECKED = (check_database_server, check_database_clock, check_database_connections)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture(scope="module")
def url(server: PostgresServer) -> str:
    made = server.new_database()
    upgrade(made)
    return made


@pytest.fixture
def usable(installation: Callable[..., Installation], url: str) -> Installation:
    return installation(BRIDGE_STATE_URL=url)


def texts(found: Finding) -> str:
    assert PASSWORD not in found.says + found.remedy
    return f"{found.says} -> {found.remedy}"


def test_without_an_address_nothing_is_checked(installation) -> None:
    assert {check(installation()) for check in CHECKED} == {
        Finding(Level.GREEN, "not used: the state is kept in SQLite files")
    }


def test_a_database_that_can_be_used_is_green(usable: Installation) -> None:
    assert [check(usable).level for check in CHECKED] == [Level.GREEN] * 3
    assert "ms for a round trip, tables up to date" in texts(check_database_server(usable))
    assert "connections in use" in texts(check_database_connections(usable))


def without_tables(server: PostgresServer) -> str:
    return server.new_database()


def with_newer_tables(server: PostgresServer) -> str:
    upgrade(made := server.new_database())
    with server.connection(made.rpartition("/")[2]) as connection:
        connection.execute("INSERT INTO gemini_bridge.migration (number, name) VALUES (9999, 'new')")
    return made


@pytest.mark.parametrize(
    ("address", "part"),
    [
        (lambda server: server.url(password="wrong"), "correct them in BRIDGE_STATE_URL"),
        (lambda server: server.url("missing"), "there is no such database"),
        (without_tables, "run `gemini-bridge state upgrade`"),
        (with_newer_tables, "Install that version here too"),
        (
            lambda _: f"postgresql://bridge:{PASSWORD}@127.0.0.1:{free_port()}/x",
            "start the server, or correct host and port in BRIDGE_STATE_URL",
        ),
    ],
)
def test_a_database_that_cannot_be_used_is_red_and_the_remedy_is_named(
    installation, server: PostgresServer, address: Callable[[PostgresServer], str], part: str
) -> None:
    broken = installation(BRIDGE_STATE_URL=address(server))
    found = check_database_server(broken)
    assert found.level is Level.RED
    assert part in texts(found)


def test_the_other_checks_refer_to_the_first_one(installation) -> None:
    broken = installation(BRIDGE_STATE_URL=f"postgresql://127.0.0.1:{free_port()}/x")
    found = [check(broken) for check in CHECKED[1:]]
    assert [each.level for each in found] == [Level.YELLOW] * 2
    assert all("see the check “database”" in texts(each) for each in found)


def test_a_missing_package_is_named_with_the_command(
    usable: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bridge.state.postgres.migrations", None)
    monkeypatch.delattr("bridge.state.postgres.migrations", raising=False)
    found = check_database_server(usable)
    assert found.level is Level.RED
    assert "pip install 'gemini-bridge[postgres]'" in texts(found)


@pytest.mark.parametrize(
    ("check", "values", "part"),
    [
        (check_database_server, {"round_trip": 0.05}, "50.0 ms for a round trip"),
        (check_database_clock, {"ahead": -7.5}, "7.5 seconds behind"),
        (check_database_clock, {"ahead": 3.0}, "3.0 seconds ahead"),
        (check_database_connections, {"connections": 90, "most_connections": 97}, "90 of 97 connections"),
    ],
)
def test_slow_trips_wrong_clocks_and_scarce_connections_are_yellow(
    usable: Installation, monkeypatch: pytest.MonkeyPatch, check, values: dict[str, float], part: str
) -> None:
    measured = measure_database(usable.settings)._replace(**values)
    monkeypatch.setattr(database, "measure_database", lambda _: measured)
    found = check(usable)
    assert found.level is Level.YELLOW
    assert part in texts(found)
    assert found.remedy


def test_the_command_prints_no_password(
    url: str, tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ("database", "database clock", "database use")
    chosen = tuple(check for check in CHECKS if check.name in named)
    assert len(chosen) == 3
    monkeypatch.setattr("bridge.doctor.checks.CHECKS", chosen)
    monkeypatch.setenv("BRIDGE_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("BRIDGE_STATE_URL", url.replace(PASSWORD, "wrong-canary-password"))
    assert main(["doctor"]) == 1
    monkeypatch.setenv("BRIDGE_STATE_URL", url)
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "PostgreSQL" in printed
    assert "canary" not in printed
