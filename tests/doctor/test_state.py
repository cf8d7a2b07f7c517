"""Checks of the state folder and its databases."""

from __future__ import annotations

import os
import sqlite3
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import pytest

from bridge.doctor import state
from bridge.doctor.finding import Installation, Level
from bridge.doctor.state import check_disk, check_state_files, check_state_folder

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    return made


def database(path: Path, rows: int = 500) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE row (text)")
        made.executemany("INSERT INTO row VALUES (?)", ((f"row {number}" * 20,) for number in range(rows)))
        made.commit()
    return path


def test_an_own_state_folder_is_green(installation, folder: Path) -> None:
    assert check_state_folder(installation()).level is Level.GREEN


def test_a_missing_state_folder_will_be_created(installation) -> None:
    found = check_state_folder(installation())
    assert found.level is Level.GREEN
    assert "the service creates it" in found.says


def test_a_state_folder_that_cannot_be_created_is_red(installation, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = check_state_folder(installation(BRIDGE_STATE_DIR=str(tmp_path / "file" / "state")))
    assert found.level is Level.RED
    assert "cannot be created" in found.says


def test_a_world_readable_state_folder_is_yellow(installation, folder: Path) -> None:
    folder.chmod(0o755)
    found = check_state_folder(installation())
    assert found.level is Level.YELLOW
    assert found.remedy == f"chmod 700 {folder}"


def test_an_inaccessible_state_folder_is_reported(
    installation, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root has access to every folder
    found = check_state_folder(installation())
    assert found.level is Level.RED
    assert "chown" in found.remedy
    assert check_state_files(installation()).level is Level.GREEN


# --- disk --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "level", "said"),
    [
        (50 << 20, Level.RED, "only 50 MB free"),
        (500 << 20, Level.YELLOW, "only 500 MB free"),
        (5 << 30, Level.GREEN, "5.0 GB"),
    ],
)
def test_free_disk_space_is_reported(
    installation, monkeypatch: pytest.MonkeyPatch, free: int, level: Level, said: str
) -> None:
    monkeypatch.setattr(state.shutil, "disk_usage", lambda _: Usage(100 << 30, 0, free))
    found = check_disk(installation())
    assert found.level is level
    assert said in found.says


@pytest.mark.parametrize(("kind", "level"), [("nfs4", Level.RED), ("cifs", Level.RED), ("ext4", Level.GREEN)])
def test_the_file_system_type_sets_the_level(
    installation, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, level: Level
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"1 0 8:1 / / rw - ext4 /dev/root rw\n2 1 0:2 / {tmp_path} rw shared:1 - {kind} server:/x rw\n"
        "3 1 0:3 / /somewhere\\040else rw - nfs server:/y rw\n"
    )
    monkeypatch.setattr(state, "MOUNTS", mounts)
    monkeypatch.setattr(state.shutil, "disk_usage", lambda _: Usage(100 << 30, 0, 50 << 30))
    found = check_disk(installation())
    assert found.level is level
    assert kind in found.says


def test_an_unknown_file_system_is_not_red(installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOUNTS", Path("/no/such/file"))
    assert check_disk(installation()).level is not Level.RED


# --- databases ---------------------------------------------------------------------------------------


def test_intact_databases_are_green_also_while_in_use(installation, folder: Path) -> None:
    path = database(folder / "answers.sqlite3")
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO row VALUES ('more')")
        found = check_state_files(installation())
    assert found.level is Level.GREEN
    assert found.says == "answers.sqlite3"


def test_a_folder_without_databases_is_green(installation, folder: Path) -> None:
    assert check_state_files(installation()).says == "none yet"


def spoil(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(3 * 4096))


@pytest.mark.parametrize("damage", [spoil, lambda path: path.write_bytes(b"not a database at all")])
def test_a_corrupt_database_is_reported_by_name(installation, folder: Path, damage) -> None:
    database(folder / "answers.sqlite3")
    damage(database(folder / "limits.sqlite3"))
    found = check_state_files(installation())
    assert found.level is Level.RED
    assert found.says.startswith("limits.sqlite3: ")
    assert "backup" in found.remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_database_owned_by_root_is_reported(installation, folder: Path) -> None:
    os.chown(database(folder / "keys.sqlite3"), 65534, 65534)
    found: Installation = check_state_files(installation())
    assert found.level is Level.RED
    assert "belongs to user 65534" in found.says
    assert found.remedy.startswith("chown -R --reference=")
