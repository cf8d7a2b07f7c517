"""A real PgBouncer in transaction mode between a bridge and a real PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from gunicorn_bridge import free_port
from postgres_server import PASSWORD, USER, PostgresServer, unprivileged
from waiting import eventually

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
needs_pgbouncer = pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")

#: PgBouncer's own defaults wherever it has one: `ignore_startup_parameters` is not set.
CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
logfile = {folder}/log
pool_mode = transaction
"""


@dataclass(frozen=True)
class PgBouncer:
    server: PostgresServer
    port: int

    def url(self, direct: str) -> str:
        """The way through PgBouncer to a database of the server."""
        return direct.replace(f":{self.server.port}/", f":{self.port}/")


@contextmanager
def pgbouncer(server: PostgresServer) -> Iterator[PgBouncer]:
    with tempfile.TemporaryDirectory(prefix="pgbouncer_") as name:
        folder, made = Path(name), PgBouncer(server, free_port())
        (folder / "users").write_text(f'"{USER}" "{PASSWORD}"\n')
        configuration = CONFIGURATION.format(server=server.port, port=made.port, folder=folder)
        (folder / "pgbouncer.ini").write_text(configuration)
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")  # PgBouncer refuses to run as root
        command = [str(PGBOUNCER), "--quiet", str(folder / "pgbouncer.ini")]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **unprivileged())
        try:
            assert eventually(lambda: _answers(made)), (folder / "log").read_text()
            yield made
        finally:
            process.terminate()
            process.wait(20)


def _answers(bouncer: PgBouncer) -> bool:
    try:
        with psycopg.connect(bouncer.url(bouncer.server.url()), connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False
