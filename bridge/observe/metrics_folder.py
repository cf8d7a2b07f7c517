"""Where the workers' metrics meet: a folder of files that each worker maps into its memory.

Room is taken before it is needed: a page of a mapped file that has no place to go, since the disk is full,
ends the process that wrote it. For the same reason the folder lies in memory where it can.
`prometheus_client` learns of the folder by a variable that must be set before it is imported; this module
therefore does not import it.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

#: Memory that looks like a file system, on Linux; anybody may write there.
SHARED_MEMORY = Path("/dev/shm")

#: The files that `prometheus_client` will map in each process, and room for a few hundred series in each.
FILES = ("counter", "gauge_livesum", "histogram")
ROOM = 256 * 1024

log = logging.getLogger(__name__)


def choose_folder(port: int, state_dir: Path) -> None:
    """Once for all workers; when the configuration is read again, the folder stays the same."""
    given = shared_folder()
    candidates = [given] if given else _candidates(port, state_dir)
    folder = next(filter(_is_ours, candidates), None)
    if folder is None:
        os.environ.pop(VARIABLE, None)
        log.warning("no folder for metrics: /metrics tells the numbers of one worker only")
    else:
        os.environ[VARIABLE] = str(folder)


def shared_folder() -> Path | None:
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def _candidates(port: int, state_dir: Path) -> Iterator[Path]:
    if runtime := os.environ.get("RUNTIME_DIRECTORY"):  # from systemd; it may name several
        yield Path(runtime.split(":")[0]) / "metrics"
    if SHARED_MEMORY.is_dir():
        yield SHARED_MEMORY / f"gemini-bridge-{os.getuid()}-{port}"
    yield state_dir / "metrics"


def _is_ours(folder: Path) -> bool:
    """Made, or found as nobody else could have left it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    private = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and private and os.access(folder, os.W_OK)


def wipe() -> None:
    """At the start: numbers of an earlier run would be taken for this one's."""
    folder = shared_folder()
    for left in folder.glob("*.db") if folder else ():
        left.unlink(missing_ok=True)


def take_room() -> None:
    """In a new worker. One for which there is none counts for itself, and lives."""
    folder = shared_folder()
    if folder is None:
        return
    files = [folder / f"{name}_{os.getpid()}.db" for name in FILES]
    try:
        for file in files:
            _make(file)
    except OSError as error:
        for file in files:
            file.unlink(missing_ok=True)
        os.environ.pop(VARIABLE)
        log.warning("no room for metrics: a worker counts for itself", extra={"reason": error.strerror})


def _make(file: Path) -> None:
    """Whole or not at all: another worker may be reading the folder."""
    unfinished = file.with_suffix(".new")
    try:
        unfinished.write_bytes(bytes(ROOM))
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def remove() -> None:
    """At the end. A folder that somebody else uses too stays."""
    wipe()
    if folder := shared_folder():
        with suppress(OSError):
            folder.rmdir()


def forget_worker(pid: int) -> None:
    """Of a worker that has ended: what it was doing is no longer done. What it has done stays counted."""
    if shared_folder() is not None:
        from prometheus_client.multiprocess import mark_process_dead  # the master has no other use for it

        mark_process_dead(pid)
