"""`gemini-bridge backup` and `restore`: a round trip with a bridge that serves meanwhile."""

from __future__ import annotations

import io
import json
import re
import shutil
import sqlite3
import stat
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import requests
from command_line import attempt, command
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge

from bridge.state.sqlite.files import SCHEMAS

CANARY = "AIza-canary-of-the-upstream-0123456789"


class Place:
    """A state folder and a settings folder."""

    def __init__(self, folder: Path) -> None:
        self.state, self.config = folder / "state", folder / "config"
        folder.mkdir()
        shutil.copytree(ROOT / "config", self.config, ignore=shutil.ignore_patterns("local.toml"))
        self.environment = {"BRIDGE_STATE_DIR": str(self.state), "BRIDGE_CONFIG_DIR": str(self.config)}

    def run(self, *words: str) -> str:
        return command(*words, **self.environment)

    def refused(self, *words: str, **environment: str) -> str:
        done = attempt(*words, **self.environment, **environment)
        assert done.returncode == 1, done.stdout + done.stderr
        return done.stderr

    @contextmanager
    def serving(self, **environment: str) -> Iterator[Bridge]:
        with gunicorn_bridge(**{**self.environment, **environment}) as bridge:
            yield bridge

    def count(self, file: str, table: str) -> int:
        with closing(sqlite3.connect(self.state / file)) as database:
            return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "first")


@pytest.fixture
def backup(place: Place, tmp_path: Path) -> Path:
    place.run("key", "add", "alice")
    place.run("backup", str(tmp_path / "backup.tar.gz"))
    return tmp_path / "backup.tar.gz"


def ask(bridge: Bridge, key: str, text: str = "Hello", **fields: object) -> requests.Response:
    return requests.post(
        f"{bridge.address}/v1/responses",
        json={"model": "gpt-5", "input": text, "store": True, **fields},
        headers={"Authorization": f"Bearer {key}"},
        timeout=60,
    )


def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        files = [member for member in tar if member.isfile()]
        return {member.name: tar.extractfile(member).read() for member in files}


def contents(state: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in state.iterdir() if path.name != "in_use.lock"}


def rewritten(archive: Path, target: Path, **changed: bytes | None) -> Path:
    """A copy of the archive with other contents; `__` in a name stands for a slash, None removes the file."""
    files = {**members(archive), **{name.replace("__", "/"): data for name, data in changed.items()}}
    with tarfile.open(target, "w:gz") as tar:
        for name, data in files.items():
            if data is not None:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return target


def rows(printed: str) -> dict[str, list[int]]:
    found = re.findall(r"^(\w+ \w+)((?: +\d+)+)$", printed, re.MULTILINE)
    return {name: [int(each) for each in numbers.split()] for name, numbers in found}


def test_a_backup_of_a_serving_bridge_is_restored_on_another_machine(place: Place, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar.gz"
    (place.config / "local.toml").write_text("[server]\nthreads = 77\n")
    (place.config / "folder").mkdir()
    (place.config / "folder" / "one.toml").write_text("# one of a folder\n")
    key = place.run("key", "add", "alice", "--cost-per-day", "5").strip()
    with place.serving() as bridge:
        first = ask(bridge, key, "Remember the word cormorant.").json()
        saved = rows(place.run("backup", str(archive)))
        after = ask(bridge, key).json()
    assert saved["keys key"] == [1]
    assert saved["answers answer"] == [1]

    other = Place(tmp_path / "second")
    other.run("key", "add", "somebody-else")
    printed = other.run("restore", str(archive))
    assert rows(printed)["keys key"] == [1, 1, 1]
    assert rows(printed)["answers answer"] == [0, 1, 1]
    assert f"Settings changed in {other.config}: folder/one.toml, local.toml" in printed
    assert "threads = 77" in (other.config / "local.toml").read_text()
    (replaced,) = other.state.glob("replaced-*")
    assert (replaced / "keys.sqlite3").exists()
    with other.serving() as bridge:
        headers = {"Authorization": f"Bearer {key}"}
        kept = requests.get(f"{bridge.address}/v1/responses/{first['id']}", headers=headers, timeout=30)
        assert kept.json()["output"] == first["output"]
        later = requests.get(f"{bridge.address}/v1/responses/{after['id']}", headers=headers, timeout=30)
        assert later.status_code == 404
        assert ask(bridge, "none").status_code == 401
    assert "alice" in other.run("key", "list")
    assert "somebody-else" not in other.run("key", "list")


def test_a_backup_is_consistent_while_answers_are_stored(place: Place, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar.gz"
    ended = threading.Event()

    def write(bridge: Bridge) -> None:
        while not ended.is_set():
            assert ask(bridge, "none").ok

    with place.serving() as bridge:
        writers = [threading.Thread(target=write, args=(bridge,)) for _ in range(4)]
        for writer in writers:
            writer.start()
        try:
            for _ in range(5):
                place.run("backup", str(archive))
        finally:
            ended.set()
            for writer in writers:
                writer.join()
        assert [entry for entry in bridge.log_entries() if entry.get("level") == "ERROR"] == []
        stored = place.count("answers.sqlite3", "answer")
    other = Place(tmp_path / "second")
    before, saved, after = rows(other.run("restore", str(archive)))["answers answer"]
    assert before == 0 < saved == after <= stored
    with closing(sqlite3.connect(other.state / "answers.sqlite3")) as database:
        query = "SELECT count(*) FROM item WHERE answer NOT IN (SELECT id FROM answer)"
        assert database.execute(query).fetchone()[0] == 0


def test_only_the_owner_can_read_it_and_it_has_no_secret(place: Place, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar.gz"
    key = place.run("key", "add", "alice").strip()
    (place.config / "credentials").mkdir()
    (place.config / "credentials" / "gemini_api_key").write_text(CANARY)
    (place.config / "env").write_text(f"GEMINI_API_KEY={CANARY}\n")
    printed = command("backup", str(archive), **place.environment, GEMINI_API_KEY=CANARY)
    assert "Not in it: the keys of upstreams" in printed
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    files = members(archive)
    assert "state/keys.sqlite3" in files
    assert "settings/models.toml" in files
    assert "settings/default.toml" not in files
    for secret in (CANARY, key):
        assert [name for name, data in files.items() if secret.encode() in data] == []
    assert list(tmp_path.glob(".backup-*")) == []


def test_a_running_bridge_is_not_restored_over(place: Place, backup: Path) -> None:
    with place.serving() as bridge:
        before = sorted(place.state.iterdir())
        assert f"a bridge is running on {place.state}: stop it first" in place.refused("restore", str(backup))
        assert sorted(place.state.iterdir()) == before
        assert requests.get(f"{bridge.address}/readyz", timeout=30).ok
    assert rows(place.run("restore", str(backup)))["keys key"] == [1, 1, 1]


def test_tables_of_a_newer_bridge_are_not_restored(place: Place, backup: Path, tmp_path: Path) -> None:
    newer = tmp_path / "keys.sqlite3"
    newer.write_bytes(members(backup)["state/keys.sqlite3"])
    with closing(sqlite3.connect(newer)) as database:
        database.execute("PRAGMA user_version = 99")
    changed = rewritten(backup, tmp_path / "newer.tar.gz", **{"state__keys.sqlite3": newer.read_bytes()})
    told = place.refused("restore", str(changed))
    assert "keys.sqlite3 in the backup was written by a newer version" in told
    assert "alice" in place.run("key", "list")
    assert list(place.state.glob("replaced-*")) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"manifest.json": None}, "not a backup of the bridge"),
        ({"manifest.json": b'{"format": 2, "rows": {}}'}, "written by a newer version"),
        ({"state__keys.sqlite3": b"spoilt" * 1000}, "keys.sqlite3 in the backup is damaged"),
        (
            {"state__later.sqlite3": b""},
            "state/later.sqlite3, which this version of the bridge does not know",
        ),
        ({"settings__..__outside.toml": b"x"}, "which this version of the bridge does not know"),
        ({"state__..__outside": b"x"}, "which this version of the bridge does not know"),
        ({"__etc__cron.d__job": b"x"}, "which this version of the bridge does not know"),
    ],
)
def test_another_or_damaged_archive_changes_nothing(
    place: Place, backup: Path, tmp_path: Path, changes: dict[str, bytes | None], told: str
) -> None:
    changed = rewritten(backup, tmp_path / "changed.tar.gz", **changes)
    before = contents(place.state)
    assert told in place.refused("restore", str(changed))
    assert contents(place.state) == before


def test_lost_rows_are_noticed(place: Place, backup: Path, tmp_path: Path) -> None:
    manifest = json.loads(members(backup)["manifest.json"])
    manifest["rows"]["keys.sqlite3"]["key"] = 2
    changed = rewritten(backup, tmp_path / "c.tar.gz", **{"manifest.json": json.dumps(manifest).encode()})
    assert "its rows are not those that it was written with" in place.refused("restore", str(changed))


def test_half_an_archive_and_no_archive_are_named(place: Place, backup: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.tar.gz"
    half.write_bytes(backup.read_bytes()[:700])
    assert f"{half} is not a whole backup" in place.refused("restore", str(half))
    half.write_text("something else")
    assert f"{half} is not a whole backup" in place.refused("restore", str(half))
    missing = tmp_path / "missing.tar.gz"
    assert f"{missing} cannot be used: No such file" in place.refused("restore", str(missing))
    nowhere = tmp_path / "nowhere" / "b.tar.gz"
    assert "cannot be used: No such file" in place.refused("backup", str(nowhere))


def test_with_a_database_its_own_tools_are_named(place: Place, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar.gz"
    password = "canary-password"
    url = {"BRIDGE_STATE_URL": f"postgresql://bridge:{password}@127.0.0.1:1/bridge"}
    place.state.mkdir()
    printed = command("backup", str(archive), **place.environment, **url)
    assert "The shared state is in PostgreSQL: back up it with pg_dump" in printed
    assert "settings/models.toml" in members(archive)
    assert password not in printed
    assert "restore it with pg_restore" in command("restore", str(archive), **place.environment, **url)


def test_settings_that_the_bridge_refuses_are_named(place: Place, backup: Path, tmp_path: Path) -> None:
    local = b"[server]\nthreds = 7\n"
    changed = rewritten(backup, tmp_path / "changed.tar.gz", **{"settings__local.toml": local})
    assert "server.threds is not a setting" in place.refused("restore", str(changed))


def test_every_file_of_the_state_has_its_place_in_a_backup() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "bridge" / "state").rglob("*.py"))
    assert {*re.findall(r'"(\w+\.sqlite3)"', sources)} - {"cache.sqlite3"} == set(SCHEMAS)
