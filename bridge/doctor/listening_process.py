"""Finds the process that listens on a TCP port, on Linux."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_LISTENING = "0A"  #: the state in /proc/net/tcp
LONGEST_COMMAND = 80


class ListeningProcess(NamedTuple):
    pid: int
    command: str


def listening_process(port: int) -> ListeningProcess | None:
    """None if nothing listens, or if this user may not see what does."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for pid in sorted(int(path.name) for path in _PROC.glob("[0-9]*")):
        if wanted and wanted & set(_open_files(pid)):
            return ListeningProcess(pid, _command(pid))
    return None


def _inodes(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for _, local, _, state, *_, inode in (line.split()[:10] for line in lines):
            if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                yield inode


def _open_files(pid: int) -> Iterator[str]:
    try:
        for file in (_PROC / str(pid) / "fd").iterdir():
            yield os.readlink(file)
    except OSError:  # the process has ended, or belongs to another user
        return


def _command(pid: int) -> str:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    shown = " ".join(filter(None, words))
    return shown if len(shown) <= LONGEST_COMMAND else f"{shown[:LONGEST_COMMAND]}…"
