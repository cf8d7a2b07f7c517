"""Checks of Python, packages, and .pth files that run at every start of Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bridge.doctor import installation
from bridge.doctor.finding import Level
from bridge.doctor.installation import check_packages, check_path_files, check_python

EVIL = "import os; os.system('curl https://elsewhere.example')\n"


def test_a_supported_python_is_green(installation) -> None:
    assert check_python(installation()).level is Level.GREEN


def test_an_old_python_is_red(installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    found = check_python(installation())
    assert found.level is Level.RED
    assert "3.10.4" in found.says


# --- packages ----------------------------------------------------------------------------------------


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Replace the lock files."""

    def write(run: str, development: str = "") -> None:
        (tmp_path / "requirements.lock").write_text(run)
        (tmp_path / "requirements-dev.lock").write_text(development)
        monkeypatch.setattr(installation, "PROJECT", tmp_path)

    return write


OURS = (installation.PROJECT / "requirements.lock").read_text()
DEVELOPMENT = "".join(
    (installation.PROJECT / f"requirements-{name}.lock").read_text() for name in ("dev", "fuzz")
)


def test_packages_that_match_the_lock_are_green(installation) -> None:
    assert check_packages(installation()).level is Level.GREEN


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("flask==1.0", "flask is 3"),
        ("no-such-package==1.0", "no-such-package is missing"),
        ("Flask==1.0 ; sys_platform == 'win32'", "flask is 3"),
    ],
)
def test_wrong_versions_and_missing_packages_are_reported(installation, lock, line: str, said: str) -> None:
    lock(OURS + f"{line} \\\n    --hash=sha256:0\n", DEVELOPMENT)
    found = check_packages(installation())
    assert found.level is Level.RED
    assert said in found.says


def test_a_package_of_other_platforms_may_be_missing(installation, lock) -> None:
    lock(OURS + "colorama-of-windows==0.4 ; sys_platform == 'win32' \\\n    --hash=sha256:0\n", DEVELOPMENT)
    assert check_packages(installation()).level is Level.GREEN


def test_a_package_missing_from_the_lock_is_reported(installation, lock) -> None:
    lock(OURS)
    found = check_packages(installation())
    assert found.level is Level.YELLOW
    assert "pytest" in found.says


def test_without_a_lock_packages_are_not_compared(installation, lock) -> None:
    lock("")
    assert check_packages(installation()).level is Level.YELLOW


# --- .pth files --------------------------------------------------------------------------------------


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(installation, "package_folders", lambda: [folder])
    return folder


def bring(folder: Path, package: str, name: str, text: str, recorded: str | None = None) -> None:
    """Write a .pth file, and the record of the package that contains it."""
    (folder / name).write_text(text)
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "RECORD").write_text(f"{name},sha256={recorded or installation._hash(folder / name)},1\n")


def test_the_pth_files_of_this_environment_are_known(installation) -> None:
    assert check_path_files(installation()).level is Level.GREEN


def test_a_known_pth_file_is_green_while_unchanged(installation, packages: Path) -> None:
    bring(packages, "setuptools", "distutils-precedence.pth", "import os\n")
    assert check_path_files(installation()).level is Level.GREEN
    (packages / "distutils-precedence.pth").write_text(EVIL)
    assert check_path_files(installation()).level is Level.RED


@pytest.mark.parametrize("package", [None, "flask", "some-stranger"])
def test_any_pth_file_that_runs_code_is_reported(installation, packages: Path, package) -> None:
    if package:
        bring(packages, package, "helper_init.pth", EVIL)
    (packages / "helper_init.pth").write_text(EVIL)
    found = check_path_files(installation())
    assert found.level is Level.RED
    assert "helper_init.pth" in found.says
    assert "replace every key" in found.remedy


def test_in_a_release_pth_files_of_development_tools_are_red(installation, packages: Path, lock) -> None:
    bring(packages, "google-generativeai", "google-nspkg.pth", "import sys\n")
    assert check_path_files(installation()).level is Level.GREEN
    lock(OURS)
    assert check_path_files(installation()).level is Level.RED


def test_an_additional_import_folder_is_yellow(installation, packages: Path) -> None:
    (packages / "more.pth").write_text("/srv/more\n")
    assert check_path_files(installation()).level is Level.YELLOW
