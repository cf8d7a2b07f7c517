"""Where the real clients are installed, in which versions, and the environment that they run in."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

HERE = Path(__file__).parent
#: The pinned clients are installed beside this file; `make test-clients LATEST=1` takes the newest instead.
FOLDER = HERE / "latest" if os.environ.get("CLIENTS") == "latest" else HERE
MODULES = FOLDER / "node_modules"
#: As npm packages with a binary are named after the machine that it is for.
PLATFORM = f"{sys.platform}-{'arm64' if platform.machine() in ('aarch64', 'arm64') else 'x64'}"
#: Nobody listens there: what a client sends anywhere but to this machine fails at once.
NOWHERE = "http://127.0.0.1:9"


def pinned() -> dict[str, str]:
    """The packages of package.json and their versions; of those with a binary, the ones for this machine."""
    told = json.loads((HERE / "package.json").read_text())
    linux = {name: pin for name, pin in told["optionalDependencies"].items() if name.endswith("linux-x64")}
    return told["dependencies"] | {name.replace("linux-x64", PLATFORM): pin for name, pin in linux.items()}


def installed_version(package: str) -> str | None:
    place = MODULES / package / "package.json"
    return str(json.loads(place.read_text())["version"]) if place.exists() else None


def why_missing(package: str) -> str | None:
    """Why a client cannot be run here; nothing if it can."""
    if installed_version(package):
        return None
    failures = FOLDER / "failures.json"
    told = json.loads(failures.read_text()) if failures.exists() else {}
    return str(told.get(package, f"{package} is not installed"))


def client_environment(home: Path) -> dict[str, str]:
    """A bare one: neither the developer's settings nor the rest of the network are to be seen."""
    kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
    path = os.pathsep.join([str(MODULES / ".bin"), os.environ["PATH"]])
    proxies = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost"}
    return {**kept, **proxies, "PATH": path, "HOME": str(home), "TMPDIR": str(home)}
