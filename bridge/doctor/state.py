"""Checks the state folder: its access rights, its disk and its databases."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores

#: Bytes of free space below which the finding is yellow, and below which it is red.
LITTLE = 1 << 30
TOO_LITTLE = 100 << 20
#: File systems on which SQLite's locks are not reliable, so that writes can be lost.
REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs"})
MOUNTS = Path("/proc/self/mountinfo")


def check_state_folder(installation: Installation) -> Finding:
    folder = installation.settings.state.dir
    if not folder.exists():
        return _creatable(folder)
    if not folder.is_dir():
        return red(f"{folder} is not a folder", "move the file away, or set state.dir or BRIDGE_STATE_DIR")
    status = folder.stat()
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return red(
            f"{folder} belongs to user {status.st_uid}, and user {os.geteuid()} has no access",
            f"run the doctor as the service's user, or: chown -R gemini-bridge: {folder}",
        )
    if status.st_mode & 0o077:
        return yellow(f"other users can read {folder}, which holds stored answers", f"chmod 700 {folder}")
    return green(str(folder))


def _creatable(folder: Path) -> Finding:
    existing = next(each for each in folder.parents if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return red(
            f"{folder} cannot be created: user {os.geteuid()} may not write to {existing}",
            "run the doctor as the service's user, or set state.dir or BRIDGE_STATE_DIR",
        )
    return green(f"{folder} does not exist yet; the service creates it")


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
    settings = installation.settings
    readable = os.access(settings.state.dir, os.R_OK | os.X_OK)
    found = [each for each in open_stores(settings, PATIENT).check() if each.exists] if readable else []
    troubled = [each for each in found if each.problem]
    if troubled:
        problems = "; ".join(f"{each.name}: {each.problem}" for each in troubled)
        return red(problems, "; ".join(dict.fromkeys(each.remedy for each in troubled)))
    return green(", ".join(sorted(each.name for each in found)) or "none yet")
