"""The state folder: there, ours alone, with room, on a disk of this machine, and its databases whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores

#: Free space below which it is told, and below which writes are about to fail.
LITTLE = 1 << 30
TOO_LITTLE = 100 << 20
#: SQLite's locks cannot be trusted there; half of the writes would be lost some day.
REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs"})
MOUNTS = Path("/proc/self/mountinfo")


def check_state_folder(installation: Installation) -> Finding:
    folder = installation.settings.state.dir
    if not folder.exists():
        return yellow(f"{folder} is not there yet", "the service makes it when it starts; start it")
    status = folder.stat()
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return red(
            f"{folder} belongs to user {status.st_uid} and is closed to user {os.geteuid()}",
            f"run the doctor as the service's user, or: chown -R gemini-bridge: {folder}",
        )
    if status.st_mode & 0o077:
        return yellow(f"{folder} can be read by others, and answers are stored in it", f"chmod 700 {folder}")
    return green(str(folder))


def check_disk(installation: Installation) -> Finding:
    folder = _nearest(installation.settings.state.dir)
    kind = _file_system(folder)
    if kind in REMOTE:
        return red(
            f"{folder} lies on {kind}, where SQLite's locks do not hold",
            "move it to a disk of this machine: state.dir, or BRIDGE_STATE_DIR",
        )
    free = shutil.disk_usage(folder).free
    told = f"{free / (1 << 30):.1f} GB free" if free >= LITTLE else f"{free >> 20} MB free"
    if free < TOO_LITTLE:
        return red(f"only {told}", "make room: usage and stored answers are no longer written")
    if free < LITTLE:
        return yellow(f"only {told}", "make room before it is used up")
    return green(f"{told}{kind and f', {kind}'}")


def _nearest(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists()).resolve()


def _file_system(folder: Path) -> str:
    """The kind of the innermost mount that holds the folder; nothing where the kernel does not tell."""
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
