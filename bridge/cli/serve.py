"""`gemini-bridge serve`: runs gunicorn with the bridge's own gunicorn settings, in place of this process."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from bridge.cli.command import Command
from bridge.settings.source import PROJECT

#: How the C library manages memory; deploy/gemini-bridge.service says why. The C library reads the variable
#: when a process starts. A value that the user has set wins.
MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1"}


def _serve(_arguments: argparse.Namespace) -> NoReturn:
    gunicorn = [sys.executable, "-m", "gunicorn", "-c", str(PROJECT / "gunicorn.conf.py")]
    os.execve(sys.executable, [*gunicorn, "bridge.web.wsgi:app"], MEMORY | os.environ)


SERVE = Command(_serve, "start the bridge under gunicorn")
