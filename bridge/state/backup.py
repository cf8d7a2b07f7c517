"""One archive with the state files and the settings files of an installation, and the way back.

Secrets are in none of them: settings files cannot contain any, and of clients' keys the state has digests.
Each file is copied as it was at one moment; the moments of two files differ by the time of a copy.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bridge.state.defined_keys import MARKER_FILE
from bridge.state.errors import StorageError
from bridge.state.folder_lock import folder_alone
from bridge.state.private_file import create_private, file_error, write_private
from bridge.state.sqlite.files import COMPANIONS, SCHEMAS, Rows, check_copy, copy_file, rows_of

FORMAT = 1
STATE, SETTINGS = "state", "settings"
MANIFEST = "manifest.json"
#: It belongs to the release, and an upgrade replaces it.
RELEASE_FILE = "default.toml"
_SETTINGS_FILE = re.compile(r"([\w-]+/)?[\w-][\w.-]*\.toml")


class BackedUpTable(NamedTuple):
    name: str  #: of the file and of its table
    rows: int
    before: int | None = 0  #: rows in the state folder before it was restored; None: the file was damaged
    after: int = 0


class Restored(NamedTuple):
    tables: list[BackedUpTable]
    settings: list[str]  #: the settings files that changed
    replaced: Path  #: the folder with the files that were replaced


# --- writing -----------------------------------------------------------------------------------------


def create_backup(state: Path, config: Path, archive: Path) -> list[BackedUpTable]:
    """Write the archive, or replace it, in one step. Raises StorageError."""
    try:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=archive.absolute().parent) as folder:
            tables = _collect(state, config, Path(folder))
            draft = Path(folder) / "archive"
            create_private(draft)
            with tarfile.open(draft, "w:gz") as tar:
                for name in (MANIFEST, STATE, SETTINGS):
                    tar.add(Path(folder) / name, name)
            draft.replace(archive)
    except OSError as error:
        raise file_error(archive, error) from error
    return tables


def _collect(state: Path, config: Path, folder: Path) -> list[BackedUpTable]:
    (folder / STATE).mkdir()
    (folder / SETTINGS).mkdir()
    if (state / MARKER_FILE).exists():  # before the keys: it must not name a key that the copy lacks
        shutil.copyfile(state / MARKER_FILE, folder / STATE / MARKER_FILE)
    for name in SCHEMAS:
        if (state / name).exists():
            copy_file(state / name, folder / STATE / name)
    for name in _settings_files(config):
        target = folder / SETTINGS / name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(config / name, target)
    rows = {name: rows_of(folder / STATE / name) for name in SCHEMAS if (folder / STATE / name).exists()}
    (folder / MANIFEST).write_text(json.dumps({"format": FORMAT, "rows": rows}, indent=1))
    return [
        BackedUpTable(_label(name, table), count)
        for name, each in rows.items()
        for table, count in each.items()
    ]


def _settings_files(config: Path) -> list[str]:
    """The paths of the files of the administrator, such as `local.toml` and `agents/reviewer.toml`."""
    found = (str(file.relative_to(config)) for kind in ("*.toml", "*/*.toml") for file in config.glob(kind))
    return sorted(name for name in found if name != RELEASE_FILE)


def _label(file: str, table: str) -> str:
    return f"{file.removesuffix('.sqlite3')} {table}"


# --- restoring ---------------------------------------------------------------------------------------


def restore_backup(archive: Path, state: Path, config: Path) -> Restored:
    """Everything is checked before anything changes. Raises StorageError."""
    with (
        _io_translated(archive),
        folder_alone(state),
        tempfile.TemporaryDirectory(prefix=".restore-", dir=state) as folder,
    ):
        found = Path(folder)
        _extract(archive, found)
        expected = _checked(found)
        before = {name: _rows_before(state / name) for name in expected}
        replaced = state / f"replaced-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        changed = _put_settings(found / SETTINGS, config, replaced)
        _put_state(found / STATE, state, replaced)
        after = {name: rows_of(state / name) for name in expected}
    if after != expected:
        raise StorageError(f"the restored rows are not those of the backup; the former files: {replaced}")
    tables = []
    for name, each in expected.items():
        former = before[name]
        for table, count in each.items():
            rows = None if former is None else former.get(table, 0)
            tables.append(BackedUpTable(_label(name, table), count, rows, after[name][table]))
    return Restored(tables, changed, replaced)


def _rows_before(path: Path) -> Rows | None:
    """None if the file is damaged: a backup is needed most of all then."""
    try:
        return rows_of(path)
    except StorageError:
        return None


@contextmanager
def _io_translated(archive: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise StorageError(f"{archive} is not a whole backup: {error}") from error
    except OSError as error:
        path = Path(error.filename) if isinstance(error.filename, str) else archive
        raise file_error(path, error) from error


def _extract(archive: Path, folder: Path) -> None:
    """Only plain files that the bridge knows: the archive may come from anywhere."""
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None and _is_known(member.name):
                target = folder / member.name
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                create_private(target)
                with target.open("wb") as file:
                    shutil.copyfileobj(content, file)
            elif not member.isdir():
                raise StorageError(
                    f"{archive} contains {member.name}, which this version of the bridge does not know: "
                    "restore it with the version that wrote it"
                )


def _is_known(name: str) -> bool:
    folder, _, file = name.partition("/")
    if folder == SETTINGS:
        return _SETTINGS_FILE.fullmatch(file) is not None and file != RELEASE_FILE
    return name == MANIFEST or (folder == STATE and file in (*SCHEMAS, MARKER_FILE))


def _checked(folder: Path) -> dict[str, dict[str, int]]:
    """The rows of each file, which must be those that the backup was written with."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if manifest["format"] != FORMAT:
            raise StorageError("the backup was written by a newer version of the bridge: install that first")
        expected: dict[str, dict[str, int]] = manifest["rows"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        raise StorageError(f"this is not a backup of the bridge: it has no readable {MANIFEST}") from None
    copies = [file for file in (folder / STATE).glob("*") if file.name in SCHEMAS]
    for copy in copies:
        check_copy(copy)
    if {copy.name: rows_of(copy) for copy in copies} != expected:
        raise StorageError("the backup is damaged: its rows are not those that it was written with")
    return expected


def _put_state(source: Path, state: Path, replaced: Path) -> None:
    """Files that the backup does not have are moved away too: the state is one moment."""
    for name in (*SCHEMAS, MARKER_FILE):
        _move_away([state / f"{name}{end}" for end in COMPANIONS], replaced)
        if (source / name).exists():
            _give_to_owner(source / name, state)
            (source / name).replace(state / name)


def _give_to_owner(file: Path, folder: Path) -> None:
    """The service must be able to open a file that root restores."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.chown(file, owner.st_uid, owner.st_gid)


def _put_settings(source: Path, config: Path, replaced: Path) -> list[str]:
    names = _settings_files(source)
    changed = [name for name in names if _content(config / name) != (source / name).read_bytes()]
    for name in changed:
        target = config / name
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        if target.exists():
            write_private(replaced / SETTINGS / name, target.read_bytes())
        target.parent.mkdir(exist_ok=True)
        write_private(target, (source / name).read_bytes())
        os.chmod(target, mode)
    return changed


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _move_away(files: Sequence[Path], folder: Path) -> None:
    for file in files:
        if file.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            file.replace(folder / file.name)
