"""The package as `pip install` gets it: built from the source distribution, run outside of a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gunicorn_bridge import ROOT, clean_environment, free_port, serves
from scratch_root import SHIPPED, answer_of
from waiting import eventually

from bridge import __version__

BUILD_FILES = ("MANIFEST.in", "CONTRIBUTING.md", "Makefile")
CONFIG = {path.name: path.read_bytes() for path in (ROOT / "config").glob("*.toml") if path.stem != "local"}
PIP_OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")


def run(*command: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution of a checkout in which somebody has settings of their own."""
    folder = tmp_path_factory.mktemp("sdist")
    checkout = folder / "checkout"
    checkout.mkdir()
    for name in (*SHIPPED, *BUILD_FILES):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, checkout / name)
    (checkout / "config" / "local.toml").write_text("[server]\nworkers = 1\n")
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    run(sys.executable, "-c", build, cwd=checkout)
    with tarfile.open(folder / f"gemini_bridge-{__version__}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"gemini_bridge-{__version__}"


class Installed:
    """The package in a folder that Python searches before the checkout; its dependencies are our own."""

    def __init__(self, site: Path, folder: Path) -> None:
        self.site = site
        self.home, self.empty = folder / "home", folder / "empty"
        self.home.mkdir()
        self.empty.mkdir()
        self.environment = {"PYTHONPATH": str(site), "HOME": str(self.home), "XDG_STATE_HOME": ""}

    def run(self, *words: str, **environment: str) -> str:
        return run(
            str(self.site / "bin" / "gemini-bridge"),
            *words,
            cwd=self.empty,
            **self.environment,
            **environment,
        )

    @contextmanager
    def serving(self) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
        port = free_port()
        own = {name: text for name, text in clean_environment().items() if name != "GLIBC_TUNABLES"}
        with (self.home / "log").open("wb") as log:
            process = subprocess.Popen(
                [self.site / "bin" / "gemini-bridge", "serve"],
                cwd=self.empty,
                env=own | self.environment | {"CODER_AGENT_PORT": str(port)},
                stdout=log,
                stderr=log,
            )
        try:
            address = f"http://127.0.0.1:{port}"
            eventually(lambda: process.poll() is not None or serves(f"{address}/readyz"), 60)
            assert process.poll() is None, (self.home / "log").read_text()
            yield address, process
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture
def installed(wheel_site: Path, tmp_path: Path) -> Installed:
    return Installed(wheel_site, tmp_path)


@pytest.fixture(scope="module")
def wheel_site(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip")
    run(*pip, "wheel", *PIP_OPTIONS, "--no-build-isolation", "-w", str(folder), str(sdist), cwd=folder)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    run(*pip, "install", *PIP_OPTIONS, "--target", str(site), str(wheel), cwd=folder)
    return site


def test_the_source_distribution_holds_a_release_and_nobodys_own_settings(sdist: Path) -> None:
    assert [name for name in SHIPPED if not (sdist / name).exists()] == []
    assert {path.name: path.read_bytes() for path in (sdist / "config").iterdir()} == CONFIG


def test_the_package_carries_the_settings_of_the_checkout(wheel_site: Path) -> None:
    shipped = wheel_site / "bridge" / "shipped"
    assert {path.name: path.read_bytes() for path in (shipped / "config").iterdir()} == CONFIG
    for name in ("gunicorn.conf.py", "docs/openapi.json"):
        assert (shipped / name).read_bytes() == (ROOT / name).read_bytes()


def test_it_serves_from_an_empty_folder_and_leaves_it_empty(installed: Installed) -> None:
    with installed.serving() as (address, process):
        assert "demo model" in answer_of(address)
        if sys.platform == "linux":
            assert b"\0GLIBC_TUNABLES=" in b"\0" + Path(f"/proc/{process.pid}/environ").read_bytes()
    assert (installed.home / ".local/state/gemini-bridge/state").is_dir()
    assert os.listdir(installed.empty) == []


def test_its_configuration_is_found_good_and_named_in_full(installed: Installed) -> None:
    checked = installed.run("check")
    assert checked.endswith("\nok\n")
    assert str(installed.site / "bridge/shipped/config/default.toml") in checked


def test_a_folder_of_settings_of_ones_own_is_used_instead(installed: Installed, tmp_path: Path) -> None:
    own = tmp_path / "own" / "config"
    shutil.copytree(ROOT / "config", own, ignore=shutil.ignore_patterns("local.toml"))
    (own / "local.toml").write_text("[server]\nthreads = 77\n")
    shown = installed.run("settings", BRIDGE_CONFIG_DIR=str(own))
    rows = {words[0]: words[1:] for line in shown.splitlines() if (words := line.split())}
    assert rows["server.threads"] == ["77", str(own / "local.toml")]
    assert rows["state.dir"][0] == str(tmp_path / "own" / "state")
