"""The folders, versions and environment of the installed real clients."""

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
#: npm packages with a binary have the platform in their name.
PLATFORM = f"{sys.platform}-{'arm64' if platform.machine() in ('aarch64', 'arm64') else 'x64'}"
#: A proxy address without a listener: requests to other machines fail at once.
NOWHERE = "http://127.0.0.1:9"


def pinned() -> dict[str, str]:
    """Return the packages of package.json and their versions; of binary packages, those for this platform."""
    told = json.loads((HERE / "package.json").read_text())
    linux = {name: pin for name, pin in told["optionalDependencies"].items() if name.endswith("linux-x64")}
    return told["dependencies"] | {name.replace("linux-x64", PLATFORM): pin for name, pin in linux.items()}


def installed_version(package: str) -> str | None:
    place = MODULES / package / "package.json"
    return str(json.loads(place.read_text())["version"]) if place.exists() else None


def why_missing(package: str) -> str | None:
    """Return the reason why a client cannot run here, or nothing."""
    if installed_version(package):
        return None
    failures = FOLDER / "failures.json"
    told = json.loads(failures.read_text()) if failures.exists() else {}
    return str(told.get(package, f"{package} is not installed"))


def client_environment(home: Path) -> dict[str, str]:
    """Return a minimal environment, without the developer's settings and without network access."""
    kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
    path = os.pathsep.join([str(MODULES / ".bin"), os.environ["PATH"]])
    proxies = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost"}
    return {**kept, **proxies, "PATH": path, "HOME": str(home), "TMPDIR": str(home)}
