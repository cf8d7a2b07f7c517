"""`make release`: the artefacts, their hashes and the bill of materials, from the real build."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gunicorn_bridge import ROOT

from bridge import __version__

LOCK = (ROOT / "requirements.lock").read_text()
PINS = dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", LOCK, re.MULTILINE))

pytestmark = pytest.mark.timeout(600)


def ran(*command: str | Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "-r", "requirements.lock")
    ran(sys.executable, "-m", "pip", "download", *options, "-d", folder / "wheels")
    ran(sys.executable, "deploy/release.py", folder / "wheels", folder / "dist")
    return folder / "dist"


@pytest.fixture
def bill(release: Path) -> dict[str, Any]:
    return json.loads((release / "sbom.cdx.json").read_text())


def test_each_artefact_is_named_with_its_hash(release: Path) -> None:
    expected = {
        f"gemini_bridge-{__version__}.tar.gz",
        f"gemini_bridge-{__version__}-py3-none-any.whl",
        "sbom.cdx.json",
    }
    found = dict(reversed(line.split()) for line in (release / "SHA256SUMS").read_text().splitlines())
    packages = {name for name in found if name.endswith(".deb")}
    assert found.keys() - packages == expected
    assert len(packages) == (shutil.which("dpkg-deb") is not None)
    for name, digest in found.items():
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == digest


def test_the_bill_of_materials_has_every_package_of_the_lock(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == __version__
    assert {each["name"]: each["version"] for each in bill["components"]} == PINS
    for each in bill["components"]:
        assert each["purl"] == f"pkg:pypi/{each['name'].lower()}@{each['version']}"
        (licence,) = (row["license"]["name"] for row in each["licenses"])
        assert licence not in ("", "not stated"), each["name"]


def test_it_has_every_hash_of_the_lock_and_no_other(bill: dict[str, Any]) -> None:
    found = [row["content"] for each in bill["components"] for row in each["hashes"]]
    assert found == re.findall(r"--hash=sha256:([0-9a-f]{64})", LOCK)


def test_no_artefact_names_a_registry(release: Path) -> None:
    for name in ("sbom.cdx.json", "SHA256SUMS"):
        assert "://" not in (release / name).read_text()
