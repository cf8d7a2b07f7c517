"""The command `gemini-bridge state`; tests/state/postgres has its tests with a PostgreSQL server."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from bridge.cli import main
from bridge.settings import load
from bridge.state.stores import open_stores

FILES = Path(__file__).parent.parent / "state" / "files_of_0_1_0"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BRIDGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("BRIDGE_STATE_URL", raising=False)
    return tmp_path / "state"


def test_the_files_of_an_earlier_version_are_upgraded_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(FILES, folder)
    assert main(["state", "upgrade"]) == 0
    assert "answers.sqlite3: version 1 -> 2\n" in capsys.readouterr().out
    assert main(["state", "upgrade"]) == 0
    assert capsys.readouterr().out == "The tables are up to date.\n"


def test_without_files_nothing_is_created(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "upgrade"]) == 0
    assert capsys.readouterr().out == "The tables are up to date.\n"
    assert not folder.exists()


def test_a_file_that_cannot_be_read_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    (folder / "keys.sqlite3").write_text("no database, and longer than its header would be")
    assert main(["state", "upgrade"]) == 1
    assert "keys.sqlite3 cannot be used" in capsys.readouterr().err


def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRIDGE_STATE_URL", "postgresql://bridge@127.0.0.1:1/db")
    for name in [name for name in sys.modules if name.startswith(("psycopg", "bridge.state.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for arguments in (["state", "upgrade"], ["key", "list"], ["usage"]):
        assert main(arguments) == 2
        assert "-m pip install 'gemini-bridge[postgres]'" in capsys.readouterr().err


def test_without_an_address_psycopg_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("psycopg")]:
        monkeypatch.delitem(sys.modules, name)
    open_stores(load()).keys.all()
    assert not [name for name in sys.modules if name.startswith("psycopg")]
