"""The Debian package: built, installed below a scratch root, asked, upgraded, removed and purged."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from gunicorn_bridge import ROOT
from scratch_root import Scratch, answer_of, choose_port, copy_of_the_project

from bridge import __version__

CONFIG = {path.name for path in (ROOT / "config").glob("*.toml")} - {"local.toml"}
#: Scripts of the package run outside of the scratch root, with DPKG_ROOT; no other package is known there.
OPTIONS = ("--force-script-chrootless", "--force-depends", "--force-confold")

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="dpkg installs as root only"),
]


def ran(*command: str | Path, cwd: Path = ROOT, path: str = "") -> str:
    environment = {**os.environ, "PIP_NO_INDEX": "", "PATH": f"{path}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "-r", "requirements.lock")
    ran(sys.executable, "-m", "pip", "download", *options, "-d", folder)
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder for PATH in which python3 is the interpreter of the wheels."""
    folder = tmp_path_factory.mktemp("python")
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    return f"{folder}:"


def built(source: Path, wheels: Path, target: Path, python: str) -> Path:
    return Path(ran(source / "deploy/deb/build.sh", wheels, target, cwd=source, path=python).strip())


def dpkg(scratch: Scratch, python: str, *words: str | Path) -> None:
    ran("dpkg", f"--root={scratch.root}", *OPTIONS, *words, path=python)


def files(root: Path) -> set[str]:
    found = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    return {each for each in found if not each.startswith("var/lib/dpkg/")}


def test_the_package_is_installed_upgraded_removed_and_purged(
    tmp_path: Path, wheels: Path, python: str
) -> None:
    scratch = Scratch.below(tmp_path, wheels)
    (scratch.root / "var/lib/dpkg/info").mkdir(parents=True)
    (scratch.root / "var/lib/dpkg/updates").mkdir()
    (scratch.root / "var/lib/dpkg/status").touch()
    dpkg(scratch, python, "--install", built(ROOT, wheels, tmp_path / "first", python))
    _check_files(scratch)
    _check_service(scratch)

    newer = copy_of_the_project(tmp_path / "newer", "9.9.9")
    _append(newer / "config" / "models.toml", "# the new release")
    _append(scratch.path("/etc/gemini-bridge/models.toml"), "# mine")
    dpkg(scratch, python, "--install", built(newer, wheels, tmp_path / "second", python))
    assert "gemini-bridge 9.9.9" in scratch.run("usr/bin/gemini-bridge --version", scratch.root).stdout
    assert scratch.path("/etc/gemini-bridge/models.toml").read_text().endswith("# mine\n")
    assert "alice" in scratch.run("usr/bin/gemini-bridge key list", scratch.root).stdout

    dpkg(scratch, python, "--remove", "gemini-bridge")
    assert not scratch.path("/opt/gemini-bridge").exists()
    assert not scratch.path("/usr/bin/gemini-bridge").exists()
    assert scratch.path("/etc/gemini-bridge/models.toml").read_text().endswith("# mine\n")
    assert scratch.path("/var/lib/gemini-bridge/keys.sqlite3").exists()
    dpkg(scratch, python, "--purge", "gemini-bridge")
    assert files(scratch.root) == set()


def _append(file: Path, line: str) -> None:
    file.write_text(f"{file.read_text()}\n{line}\n")


def _check_files(scratch: Scratch) -> None:
    etc = scratch.path("/etc/gemini-bridge")
    assert {path.name for path in etc.glob("*.toml")} == CONFIG
    for folder in (etc / "credentials", scratch.path("/var/lib/gemini-bridge")):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    listed = (scratch.root / "var/lib/dpkg/info/gemini-bridge.conffiles").read_text().split()
    assert listed == sorted(f"/etc/gemini-bridge/{name}" for name in CONFIG)
    unit = scratch.path("/lib/systemd/system/gemini-bridge.service")
    assert unit.read_bytes() == (ROOT / "deploy/gemini-bridge.service").read_bytes()
    status = ran("dpkg-query", f"--admindir={scratch.root}/var/lib/dpkg", "-W", "gemini-bridge")
    assert status.split() == ["gemini-bridge", __version__]


def _check_service(scratch: Scratch) -> None:
    address = choose_port(scratch)
    checked = scratch.run("usr/bin/gemini-bridge check", scratch.root)
    assert checked.stdout.endswith("\nok\n"), checked.stderr
    key = scratch.run("usr/bin/gemini-bridge key add alice", scratch.root).stdout.strip()
    with scratch.service():
        assert "demo model" in answer_of(address, key)


def test_a_release_of_the_install_script_is_not_overwritten(tmp_path: Path) -> None:
    current = tmp_path / "opt/gemini-bridge/current"
    current.parent.mkdir(parents=True)
    current.symlink_to("releases/0.1.0")
    done = subprocess.run(
        [ROOT / "deploy/deb/preinst", "install"],
        env={**os.environ, "DPKG_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "deploy/install.sh --uninstall" in done.stderr
