"""Checks the state folder: its access rights, its disk and its databases."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from bridge.doctor.finding import Finding, Installation, green, red, yellow

#: Bytes of free space below which the finding is yellow, and below which it is red.
LITTLE = 1 << 30
TOO_LITTLE = 100 << 20
#: File systems on which SQLite's locks are not reliable, so that writes can be lost.
REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs"})
MOUNTS = Path("/proc/self/mountinfo")


def check_state_folder(installation: Installation) -> Finding:
    folder = installation.settings.state.dir
    if not folder.exists():
        return yellow(f"{folder} does not exist yet", "start the service; it creates the folder")
    status = folder.stat()
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return red(
            f"{folder} belongs to user {status.st_uid}, and user {os.geteuid()} has no access",
            f"run the doctor as the service's user, or: chown -R gemini-bridge: {folder}",
        )
    if status.st_mode & 0o077:
        return yellow(f"other users can read {folder}, which holds stored answers", f"chmod 700 {folder}")
    return green(str(folder))


def check_disk(installation: Installation) -> Finding:
    folder = _nearest(installation.settings.state.dir)
    kind = _file_system(folder)
    if kind in REMOTE:
        return red(
            f"{folder} is on a {kind} file system, where SQLite's locks are not reliable",
            "move it to a local disk with state.dir or BRIDGE_STATE_DIR",
        )
    free = shutil.disk_usage(folder).free
    space = f"{free / (1 << 30):.1f} GB free" if free >= LITTLE else f"{free >> 20} MB free"
    if free < TOO_LITTLE:
        return red(f"only {space}", "free disk space; writes of usage and stored answers are about to fail")
    if free < LITTLE:
        return yellow(f"only {space}", "free disk space soon")
    return green(f"{space}{kind and f', {kind}'}")


def _nearest(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists()).resolve()


def _file_system(folder: Path) -> str:
    """The type of the file system that holds the folder; empty if the kernel does not provide it."""
    try:
        lines = MOUNTS.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    mounts = [(_unescaped(line.split()[4]), line.partition(" - ")[2].split()[0]) for line in lines]
    holding = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(holding, key=lambda mount: len(mount[0]))[1] if holding else ""


def _unescaped(point: str) -> str:
    return point.encode().decode("unicode_escape") if "\\" in point else point


# --- databases ---------------------------------------------------------------------------------------


def check_state_files(installation: Installation) -> Finding:
    folder = installation.settings.state.dir
    files = sorted(folder.glob("*.sqlite3")) if os.access(folder, os.R_OK | os.X_OK) else []
    troubles = {path.name: trouble for path in files if (trouble := _trouble(path))}
    if troubles:
        said = "; ".join(f"{name}: {trouble}" for name, trouble in troubles.items())
        return red(said, _remedy(folder, troubles))
    return green(", ".join(path.name for path in files) or "none yet")


def _trouble(path: Path) -> str:
    if path.stat().st_uid != path.parent.stat().st_uid:
        return f"belongs to user {path.stat().st_uid} instead of the owner of the folder"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2)) as database:
            said = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        said = str(error)
    return "" if said == "ok" else said.splitlines()[-1]


def _remedy(folder: Path, troubles: dict[str, str]) -> str:
    if any(trouble.startswith("belongs") for trouble in troubles.values()):
        return f"chown -R --reference={folder} {folder}"
    return "stop the service, restore the file from a backup (or move it away), and start the service"
