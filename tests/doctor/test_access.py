"""The doctor's check of access keys."""

from __future__ import annotations

from pathlib import Path

from client_keys import KEYS_FILE, ClientKeys

from bridge.doctor.access import check_access
from bridge.doctor.finding import Level
from bridge.state.key_store import Rules


def test_a_bridge_without_keys_is_yellow(installation, tmp_path: Path) -> None:
    found = check_access(installation())
    assert found.level is Level.YELLOW
    assert "no key is defined" in found.says
    assert "key add" in found.remedy
    assert not (tmp_path / "state").exists()


def test_a_bridge_with_keys_is_green_unless_open_access_is_set(installation, tmp_path: Path) -> None:
    secret = ClientKeys(tmp_path / "state").add("alice", Rules())
    found = check_access(installation())
    assert found.level is Level.GREEN
    assert found.says == "a key is needed; 1 defined"
    assert secret not in found.says
    assert check_access(installation(BRIDGE_ACCESS__OPEN="true")).level is Level.YELLOW


def test_unreadable_keys_are_reported(installation, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / KEYS_FILE).write_bytes(
        b"not a database at all, but long enough to be taken for one" * 99
    )
    assert check_access(installation()).level is Level.RED
