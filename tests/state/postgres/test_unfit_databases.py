"""Databases that the bridge cannot use: each message says what to change, and none contains the password."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import NamedTuple

import pytest
from gunicorn_bridge import ROOT, clean_environment
from postgres_server import PASSWORD, USER, PostgresServer, replica_of

from bridge.cli import main
from bridge.settings.limits import Limits
from bridge.state.errors import DatabaseUnfit, StorageError, StorageUnavailable
from bridge.state.ledger import LimitedSubject
from bridge.state.postgres import migrations
from bridge.state.postgres.migrations import check_database, upgrade


class Case(NamedTuple):
    url: Callable[[PostgresServer, str], str]
    parts: list[str]


def with_statement(text: str) -> Callable[[PostgresServer, str], str]:
    """The address of a copy of the bridge's database in which the statement was run."""

    def made(server: PostgresServer, template: str) -> str:
        url = server.new_database(template)
        with server.connection(url.rpartition("/")[2]) as connection:
            connection.execute(text)
        return url

    return made


CASES = {
    "wrong password": Case(
        lambda server, _template: server.url(password="wrong"),
        ["the user or the password", "BRIDGE_STATE_URL"],
    ),
    "wrong user": Case(
        lambda server, _template: server.url(user="nobody"), ["the user or the password", "BRIDGE_STATE_URL"]
    ),
    "unknown database": Case(
        lambda server, _template: server.url("missing"), ["no such database", "create it", "BRIDGE_STATE_URL"]
    ),
    "unknown parameter": Case(
        lambda server, _template: f"{server.url()}?colour=blue", ["cannot be parsed", "BRIDGE_STATE_URL"]
    ),
    "no tables": Case(
        lambda server, _template: server.new_database(),
        ["no tables of the bridge", "gemini-bridge state upgrade"],
    ),
    "older tables": Case(
        with_statement("DELETE FROM gemini_bridge.migration WHERE number > 1"),
        ["has tables of version 1", "gemini-bridge state upgrade"],
    ),
    "newer tables": Case(
        with_statement("INSERT INTO gemini_bridge.migration (number, name) VALUES (99, '')"),
        ["has tables of version 99", "newer version", "Install"],
    ),
    "another program": Case(
        with_statement("DROP TABLE gemini_bridge.migration"),
        ["a schema gemini_bridge of another program", "Name another database"],
    ),
    "another program with migrations": Case(
        with_statement("DROP TABLE gemini_bridge.migration; CREATE TABLE gemini_bridge.migration (x int)"),
        ["a schema gemini_bridge of another program", "Name another database"],
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, server: PostgresServer, template: str) -> tuple[str, list[str]]:
    found = CASES[request.param]
    return found.url(server, template), found.parts


def test_a_database_that_cannot_be_used_is_refused_with_what_to_change(case: tuple[str, list[str]]) -> None:
    url, parts = case
    with pytest.raises(DatabaseUnfit) as caught:
        check_database(url)
    assert [part for part in parts if part not in str(caught.value)] == [], str(caught.value)
    assert PASSWORD not in f"{caught.value}{caught.value.reason}"


def test_the_bridge_does_not_start_with_such_a_database(case: tuple[str, list[str]]) -> None:
    url, parts = case
    started = subprocess.run(
        [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "app:app"],
        cwd=ROOT,
        env=clean_environment() | {"BRIDGE_STATE_URL": url, "CODER_AGENT_PORT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert started.returncode == 2
    assert [part for part in parts if part not in started.stderr] == [], started.stderr
    assert PASSWORD not in started.stderr
    assert "Traceback" not in started.stderr


def test_an_old_server_is_refused(postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "OLDEST_SERVER", 99)
    with pytest.raises(DatabaseUnfit, match="needs 99 or newer: upgrade the server"):
        check_database(postgres.url)


def test_a_replica_is_refused(server: PostgresServer, postgres) -> None:
    name = postgres.url.rpartition("/")[2]
    with replica_of(server) as replica:
        for use in (check_database, upgrade):
            with pytest.raises(DatabaseUnfit, match=r"a read-only replica: name the primary server"):
                use(replica.url(name))
        hosts = f"127.0.0.1:{replica.port},127.0.0.1:{server.port}"
        both = f"postgresql://{USER}:{PASSWORD}@{hosts}/{name}"
        with pytest.raises(DatabaseUnfit, match=r"with several hosts in it, add \?target_session_attrs"):
            check_database(both)
        check_database(f"{both}?target_session_attrs=read-write")


def test_a_user_who_may_not_create_tables_is_told_what_to_grant(server: PostgresServer) -> None:
    with server.connection() as connection:
        connection.execute(f"CREATE ROLE stranger LOGIN PASSWORD '{PASSWORD}'")
    url = server.url(server.new_database().rpartition("/")[2], user="stranger")
    with pytest.raises(DatabaseUnfit, match=r"grant it CREATE on that database, or name a database"):
        upgrade(url)


def test_a_server_without_tls_names_the_setting(postgres) -> None:
    with pytest.raises(StorageUnavailable, match="correct sslmode and sslrootcert in BRIDGE_STATE_URL"):
        check_database(f"{postgres.url}?sslmode=require")


def test_another_program_at_the_port_is_not_a_database() -> None:
    """MySQL's server speaks first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            client, _ = listener.accept()
            client.sendall(b"J\0\0\0\n8.0.33\0")
            client.close()

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(StorageUnavailable, match="check the host and the port in BRIDGE_STATE_URL"):
            check_database(f"postgresql://bridge@127.0.0.1:{listener.getsockname()[1]}/db")


def test_a_full_disk_is_named_with_what_to_do(postgres) -> None:
    database = postgres.database()
    full = "DO $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$"
    with pytest.raises(StorageUnavailable, match="device; free space on the disk of the database server"):
        database.run(full)
    assert database.working


def test_too_many_connections_are_named_with_what_to_do(postgres) -> None:
    postgres.database().run(f"CREATE ROLE crowded LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 0")
    with pytest.raises(StorageUnavailable, match="let the database server accept more connections"):
        check_database(postgres.url.replace(f"//{USER}:", "//crowded:"))


def test_a_user_who_may_not_connect_is_named(server: PostgresServer, postgres) -> None:
    name = postgres.url.rpartition("/")[2]
    postgres.database().run(f"CREATE ROLE outsider LOGIN PASSWORD '{PASSWORD}'")
    postgres.database().run(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
    with pytest.raises(DatabaseUnfit, match="refuses the user or the password: correct them"):
        check_database(server.url(name, user="outsider"))


def _one_stream() -> list[LimitedSubject]:
    return [LimitedSubject("key:alice", "", Limits(streams=1))]


def test_a_database_that_became_read_only_is_unavailable(postgres) -> None:
    database = postgres.database()
    database.run(
        "ALTER DATABASE " + postgres.url.rpartition("/")[2] + " SET default_transaction_read_only = on"
    )
    with pytest.raises(StorageUnavailable, match="name the primary server in BRIDGE_STATE_URL, or let"):
        postgres.ledger().enter(_one_stream())


def test_a_user_without_rights_is_named(server: PostgresServer, postgres) -> None:
    postgres.database().run(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    url = server.url(postgres.url.rpartition("/")[2], user="guest")
    with pytest.raises(DatabaseUnfit, match="grant it the rights"):
        check_database(url)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "database.invalid:5432"])
def test_a_server_that_is_not_there_is_unavailable_and_not_unfit(address: str) -> None:
    with pytest.raises(StorageUnavailable, match=rf"postgresql://{address}/db cannot be used") as caught:
        check_database(f"postgresql://bridge@{address}/db")
    assert str(caught.value).endswith(
        "check the host and the port in BRIDGE_STATE_URL, and that the server runs"
    )


# --- the upgrade -------------------------------------------------------------------------------------


def test_the_upgrade_runs_once_however_many_run_it(server: PostgresServer) -> None:
    url = server.new_database()
    environment = clean_environment() | {"BRIDGE_STATE_URL": url}
    command = [
        sys.executable,
        "-c",
        "import sys; from bridge.cli import main; sys.exit(main(['state', 'upgrade']))",
    ]
    running = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = sorted(each.communicate(timeout=60)[0] for each in running)
    assert said == [
        "".join(f"{each.name}\n" for each in migrations.migrations()),
        "The tables are up to date.\n",
        "The tables are up to date.\n",
    ]
    check_database(url)


def test_an_upgrade_that_fails_leaves_nothing(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, whole = server.new_database(), migrations.migrations()
    broken = migrations.Migration(3, "0003_broken", "SELECT 1 / 0")
    monkeypatch.setattr(migrations, "migrations", lambda: [*whole, broken])
    with pytest.raises(StorageError, match="division by zero"):
        upgrade(url)
    with server.connection(url.rpartition("/")[2]) as connection:
        assert connection.execute("SELECT to_regnamespace('gemini_bridge')").fetchone() == (None,)


def test_the_upgrade_refuses_newer_tables(
    server: PostgresServer, template: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRIDGE_STATE_URL", CASES["newer tables"].url(server, template))
    assert main(["state", "upgrade"]) == 1
    assert "newer version" in capsys.readouterr().err
