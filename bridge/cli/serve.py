"""`gemini-bridge serve`: runs gunicorn with the bridge's own gunicorn settings, in place of this process."""

from __future__ import annotations

import argparse
import errno
import os
import socket
import sys
from typing import NoReturn

from bridge.cli.command import Command, Example
from bridge.doctor.listening_process import listening_process
from bridge.settings import SettingsError, load
from bridge.settings.sections import ServerSettings
from bridge.settings.source import PROJECT

#: How the C library manages memory; deploy/gemini-bridge.service says why. The C library reads the variable
#: when a process starts. A value that the user has set wins.
MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1"}


def _serve(_arguments: argparse.Namespace) -> NoReturn:
    _check_address(load().server)
    gunicorn = [sys.executable, "-m", "gunicorn", "-c", str(PROJECT / "gunicorn.conf.py")]
    os.execve(sys.executable, [*gunicorn, "bridge.web.wsgi:app"], MEMORY | os.environ)


SERVE = Command(
    _serve,
    "start the bridge under gunicorn",
    examples=(Example("serve", "listen on the address of the settings server.host and server.port"),),
)


def _check_address(server: ServerSettings) -> None:
    """gunicorn would try for five seconds, and not say what uses the port."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((server.host, server.port))
            listener.listen()  # two sockets may be bound to a port, but only one may listen
        except OSError as error:
            raise SettingsError(_not_bound(server, error)) from None


def _not_bound(server: ServerSettings, error: OSError) -> str:
    where = f"{server.host}:{server.port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{where} is in use{_by_whom(server.port)}. Stop that process, or choose another port, "
            f"such as BRIDGE_SERVER__PORT={server.port + 1 if server.port < 65535 else 41242}"
        )
    if error.errno == errno.EACCES:
        return f"{where}: this user may not listen on port {server.port}; use a port from 1024 on"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where}: this machine does not have the address {server.host}; change server.host"
    return f"{where}: {error.strerror}; change server.host or server.port"


def _by_whom(port: int) -> str:
    found = listening_process(port)
    return "" if found is None else f" by process {found.pid} ({found.command or 'without a name'})"
