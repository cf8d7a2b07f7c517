"""Checks what is installed: the interpreter, the packages, and files that run at every start of Python.

A `.pth` file in a package folder can hold code that runs whenever Python starts; attackers have used this to
steal credentials. So the doctor reports each file whose name, package and hash are not known.
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
REINSTALL = "run deploy/install.sh of this release again; in a checkout: make clean, then make run"
#: The tools of a virtual environment, and the bridge itself.
OWN = frozenset({"pip", "setuptools", "wheel", "uv", "gemini-bridge"})
#: Expected path files, each with the package whose RECORD must list it.
KNOWN_PATH_FILES = {
    "distutils-precedence.pth": "setuptools",
    f"__editable__.gemini_bridge-{__version__}.pth": "gemini-bridge",
}

_PIN = re.compile(r"^([\w.-]+)(?:\[[\w, ]+\])?==([^\s;\\]+)\s*(;)?", re.MULTILINE)


def check_python(_installation: Installation) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST:
        return red(
            f"Python {version} is too old",
            "install Python 3.11 or newer, then run deploy/install.sh with --python",
        )
    return green(f"{version}, {sys.executable}")


# --- packages ----------------------------------------------------------------------------------------


def check_packages(_installation: Installation) -> Finding:
    locked = _pins(PROJECT / "requirements.lock")
    if not locked:
        return yellow("the file requirements.lock is missing, so the packages cannot be compared", REINSTALL)
    installed = {_plain(each.name): each.version for each in metadata.distributions()}
    wrong = sorted(_differing(locked, installed))
    if wrong:
        return red("; ".join(wrong), REINSTALL)
    extra = sorted(installed.keys() - locked.keys() - _development().keys() - OWN)
    if extra:
        return yellow(
            f"not in requirements.lock: {', '.join(extra)}", "find out who installed these packages and why"
        )
    return green(f"{len(locked)} packages, all as in requirements.lock")


def _pins(lock: Path) -> dict[str, tuple[str, bool]]:
    """For each package: its version, and whether only some platforms need it."""
    text = lock.read_text("utf-8") if lock.exists() else ""
    return {_plain(name): (version, bool(marker)) for name, version, marker in _PIN.findall(text)}


def _development() -> dict[str, tuple[str, bool]]:
    """The packages for development, which a checkout has too; a release has no such lock files."""
    return _pins(PROJECT / "requirements-dev.lock") | _pins(PROJECT / "requirements-fuzz.lock")


def _differing(locked: dict[str, tuple[str, bool]], installed: dict[str, str]) -> Iterator[str]:
    for name, (version, optional) in locked.items():
        found = installed.get(name)
        if found is None and not optional:
            yield f"{name} is missing"
        elif found is not None and found != version:
            yield f"{name} is {found}, requirements.lock says {version}"


def _plain(name: str) -> str:
    """The name normalised as PyPI does it."""
    return re.sub(r"[-_.]+", "-", name).lower()


# --- path files --------------------------------------------------------------------------------------


def check_path_files(_installation: Installation) -> Finding:
    unknown = [path for folder in package_folders() for path in _unknown_path_files(folder)]
    running = sorted(path.name for path in unknown if _runs_code(path))
    if running:
        return red(
            f"unknown files with code that runs at every start of Python: {', '.join(running)}",
            "read them; if nobody on your team installed them, replace every key on this machine, "
            f"then {REINSTALL}",
        )
    if unknown:
        return yellow(
            f"unknown files that add import folders: {', '.join(sorted(path.name for path in unknown))}",
            "remove them if nobody needs them",
        )
    return green("only expected files")


def package_folders() -> list[Path]:
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else ())]
    return [Path(folder) for folder in folders]


def _unknown_path_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.pth"))
    owners = _owners(folder) if files else {}
    return [path for path in files if not _is_known(path, *owners.get(path.name, ("", "")))]


def _owners(folder: Path) -> dict[str, tuple[str, str]]:
    """For each path file: the package that installed it, and its hash at that time."""
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
    """The hash of the file in the format of a package's RECORD."""
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()


def _runs_code(path: Path) -> bool:
    lines = path.read_text("utf-8", errors="replace").splitlines()
    return any(line.startswith(("import ", "import\t")) for line in lines)
