"""What is installed: the interpreter, the packages, and files that run at every start of Python.

A `.pth` file in a package folder may hold code that runs before any program does, and credentials were stolen
that way. So each one that is not known by name, owner and hash is told.
"""

from __future__ import annotations

import base64
import hashlib
import re
import site
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from bridge import __version__
from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.settings.source import PROJECT

OLDEST = (3, 11)
REINSTALL = "run deploy/install.sh of this release again, or in a checkout: make clean, then make run"
#: What a virtual environment has of its own, and what we are.
OWN = frozenset({"pip", "setuptools", "wheel", "uv", "gemini-bridge"})
#: Path files that belong here, by the package whose record must vouch for them.
KNOWN_PATH_FILES = {
    "distutils-precedence.pth": "setuptools",
    f"__editable__.gemini_bridge-{__version__}.pth": "gemini-bridge",
}

_PIN = re.compile(r"^([\w.-]+)(?:\[[\w, ]+\])?==([^\s;\\]+)\s*(;)?", re.MULTILINE)


def check_python(_patient: Installation) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST:
        return red(f"{version} is too old", "install Python 3.11 or newer, and the bridge with --python")
    return green(f"{version}, {sys.executable}")


# --- packages ----------------------------------------------------------------------------------------


def check_packages(_patient: Installation) -> Finding:
    locked = _pins(PROJECT / "requirements.lock")
    if not locked:
        return yellow("there is no requirements.lock to compare with", REINSTALL)
    installed = {_plain(each.name): each.version for each in metadata.distributions()}
    wrong = sorted(_differing(locked, installed))
    if wrong:
        return red("; ".join(wrong), REINSTALL)
    strangers = sorted(installed.keys() - locked.keys() - _development().keys() - OWN)
    if strangers:
        return yellow(f"not in the lock: {', '.join(strangers)}", "find out who installed them here, and why")
    return green(f"{len(locked)}, as locked")


def _pins(lock: Path) -> dict[str, tuple[str, bool]]:
    """By name: the version, and whether it is wanted on some platforms only."""
    text = lock.read_text("utf-8") if lock.exists() else ""
    return {_plain(name): (version, bool(marker)) for name, version, marker in _PIN.findall(text)}


def _development() -> dict[str, tuple[str, bool]]:
    """In a checkout the tools for tests and checks belong here too; a release does not have their lock."""
    return _pins(PROJECT / "requirements-dev.lock") | _pins(PROJECT / "requirements-fuzz.lock")


def _differing(locked: dict[str, tuple[str, bool]], installed: dict[str, str]) -> Iterator[str]:
    for name, (version, optional) in locked.items():
        found = installed.get(name)
        if found is None and not optional:
            yield f"{name} is missing"
        elif found is not None and found != version:
            yield f"{name} is {found}, locked is {version}"


def _plain(name: str) -> str:
    """PyPI's own way to compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


# --- path files --------------------------------------------------------------------------------------


def check_path_files(_patient: Installation) -> Finding:
    strange = [path for folder in package_folders() for path in _strange_path_files(folder)]
    running = sorted(path.name for path in strange if _runs_code(path))
    if running:
        return red(
            f"code that runs at every start of Python: {', '.join(running)}",
            f"read it; if nobody put it there, change every key this machine knows, then {REINSTALL}",
        )
    if strange:
        return yellow(
            f"other folders are imported from: {', '.join(sorted(path.name for path in strange))}",
            "remove the file, if nobody knows what it is for",
        )
    return green("none but the expected ones")


def package_folders() -> list[Path]:
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else ())]
    return [Path(folder) for folder in folders]


def _strange_path_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.pth"))
    owners = _owners(folder) if files else {}
    return [path for path in files if not _is_known(path, *owners.get(path.name, ("", "")))]


def _owners(folder: Path) -> dict[str, tuple[str, str]]:
    """By the name of a path file: the package that brought it, and the hash it had then."""
    found = {}
    for package in metadata.distributions(path=[str(folder)]):
        for name, recorded in _path_files(package.files or ()):
            found[name] = (_plain(package.name), recorded)
    return found


def _path_files(files: Iterable[metadata.PackagePath]) -> Iterator[tuple[str, str]]:
    for file in files:
        if file.suffix == ".pth" and file.hash is not None:
            yield file.name, file.hash.value


def _is_known(path: Path, owner: str, recorded: str) -> bool:
    tools = _development().keys() - _pins(PROJECT / "requirements.lock").keys() - OWN
    expected = KNOWN_PATH_FILES.get(path.name) == owner or owner in tools
    return expected and recorded == _hash(path)


def _hash(path: Path) -> str:
    """As a package's record writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()


def _runs_code(path: Path) -> bool:
    lines = path.read_text("utf-8", errors="replace").splitlines()
    return any(line.startswith(("import ", "import\t")) for line in lines)
