"""Builds a release: wheel, source distribution, Debian package, bill of materials (CycloneDX), SHA256SUMS.

`python deploy/release.py WHEELS OUTPUT` with the packages of requirements.lock in WHEELS. Each artefact is
installed into an empty environment, without a network, and must find its configuration good.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
BUILD_SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
_PIN = re.compile(r"^([\w.-]+)(?:\[[\w, ]+\])?==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def main(wheels: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sdist = build_sdist(work, output)
        wheel = build_wheel(sdist, output)
        for artefact in (sdist, wheel):
            try_package(artefact, wheels, work / f"try-{artefact.name}")
        built = [sdist, wheel]
        if shutil.which("dpkg-deb"):
            package = Path(_run(ROOT / "deploy/deb/build.sh", wheels, output).strip())
            try_deb(package, work / "deb")
            built.append(package)
    bill = output / "sbom.cdx.json"
    bill.write_text(json.dumps(bill_of_materials(), indent=2) + "\n")
    write_hashes([*built, bill], output / "SHA256SUMS")
    sys.stdout.write((output / "SHA256SUMS").read_text())


# --- building ----------------------------------------------------------------------------------------


def build_sdist(work: Path, output: Path) -> Path:
    """From a copy: the build writes beside its sources, and settings of this checkout stay out."""
    copy = work / "source"
    ignored = shutil.ignore_patterns(".*", "dist", "build", "tests", "bench", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=ignored)
    (copy / "config" / "local.toml").unlink(missing_ok=True)
    _run(sys.executable, "-c", BUILD_SDIST, work, cwd=copy)
    (made,) = work.glob("*.tar.gz")
    return Path(shutil.copy(made, output))


def build_wheel(sdist: Path, output: Path) -> Path:
    for old in output.glob("gemini_bridge-*.whl"):
        old.unlink()
    _run(
        sys.executable, *PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", output, sdist
    )
    (made,) = output.glob("gemini_bridge-*.whl")
    return made


# --- trying ------------------------------------------------------------------------------------------


def try_package(artefact: Path, wheels: Path, folder: Path) -> None:
    folder.mkdir()
    _run(sys.executable, "-m", "venv", folder / "venv")
    pip = (folder / "venv/bin/python", *PIP, "install", "--no-index")
    _run(*pip, "--require-hashes", "--find-links", wheels, "-r", LOCK)
    _run(*pip, "--no-deps", "--no-build-isolation", artefact)
    _check(folder / "venv/bin/gemini-bridge", folder)


def try_deb(package: Path, folder: Path) -> None:
    _run("dpkg-deb", "--extract", package, folder)
    _run("dpkg-deb", "--control", package, folder / "DEBIAN")
    _run(folder / "DEBIAN/postinst", "configure", DPKG_ROOT=str(folder))
    _check(folder / "usr/bin/gemini-bridge", folder)


def _check(command: Path, home: Path) -> None:
    done = subprocess.run(
        [command, "check"],
        cwd=home,
        env={"PATH": os.defpath, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not done.stdout.endswith("ok\n"):
        sys.exit(f"{command} does not work:\n{done.stdout}{done.stderr}")


def _run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


# --- describing --------------------------------------------------------------------------------------


def bill_of_materials() -> dict[str, Any]:
    """All packages of the lock. Without a time and a number, so that the same lock gives the same file."""
    own = {"type": "application", "name": "gemini-bridge", "version": metadata.version("gemini-bridge")}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": [_component(*pin) for pin in _pins()],
    }


def _pins() -> list[tuple[str, str, list[str]]]:
    text = LOCK.read_text()
    found = list(_PIN.finditer(text))
    ends = [*(each.start() for each in found[1:]), len(text)]
    return [
        (pin[1], pin[2], _HASH.findall(text[pin.end() : end])) for pin, end in zip(found, ends, strict=True)
    ]


def _component(name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    """A package has a hash for each of its files: one for each platform and version of Python."""
    reference = f"pkg:pypi/{name.lower()}@{version}"
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
        "licenses": [{"license": {"name": _licence(name)}}],
        "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
    }


def _licence(name: str) -> str:
    """As the package itself states it. Packages of other platforms are not installed here."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return "not installed on this platform"
    classified = [each for each in about.get_all("Classifier", []) if each.startswith("License ::")]
    stated = about.get("License-Expression") or about.get("License", "").partition("\n")[0]
    return stated or "; ".join(each.rpartition(" :: ")[2] for each in classified) or "not stated"


def write_hashes(files: list[Path], target: Path) -> None:
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    target.write_text("".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
