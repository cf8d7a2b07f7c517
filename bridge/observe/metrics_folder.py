"""The folder of the workers' metrics. Each worker maps its own files in it into memory.

The files get their space in advance: if the disk is full, a write to a mapped page without space kills the
process. For the same reason the folder is in shared memory if possible. `prometheus_client` reads the name of
the folder from an environment variable when it is imported, so this module does not import it.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

#: A file system in memory, on Linux. Every user may write there.
SHARED_MEMORY = Path("/dev/shm")

#: The files that `prometheus_client` maps in each process, and the bytes for a few hundred series in each.
FILES = ("counter", "gauge_livesum", "histogram")
ROOM = 256 * 1024

log = logging.getLogger(__name__)


def choose_folder(port: int, state_dir: Path) -> None:
    """Choose the folder once for all workers. A reload of the configuration keeps it."""
    given = shared_folder()
    candidates = [given] if given else _candidates(port, state_dir)
    folder = next(filter(_is_ours, candidates), None)
    if folder is None:
        os.environ.pop(VARIABLE, None)
        log.warning("no folder for metrics: /metrics shows the counts of one worker only")
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
    """Create the folder; false if it belongs to another user or another user can write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    private = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and private and os.access(folder, os.W_OK)


def wipe() -> None:
    """Delete the counts of an earlier run, at the start."""
    folder = shared_folder()
    for left in folder.glob("*.db") if folder else ():
        left.unlink(missing_ok=True)


def take_room() -> None:
    """Reserve space in a new worker. Without space the worker counts in its own memory only."""
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
        log.warning(
            "no space for metrics: this worker counts in its own memory only",
            extra={"reason": error.strerror},
        )


def _make(file: Path) -> None:
    """Create a file of full size in one step: another worker may be reading the folder."""
    unfinished = file.with_suffix(".new")
    try:
        unfinished.write_bytes(bytes(ROOM))
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def remove() -> None:
    """Delete the files and the folder, at the end. A folder with other files stays."""
    wipe()
    if folder := shared_folder():
        with suppress(OSError):
            folder.rmdir()


def forget_worker(pid: int) -> None:
    """Reset the gauges of a worker that has ended. Its counters stay."""
    if shared_folder() is not None:
        from prometheus_client.multiprocess import mark_process_dead  # the master needs it only here

        mark_process_dead(pid)
