"""Copies a whole state from one backend to the other. A copy can be repeated: it adds what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bridge.settings import Settings, SettingsError
from bridge.state.errors import StorageError
from bridge.state.portable_tables import StoredTable
from bridge.state.sqlite.tables import sqlite_tables
from bridge.state.stores import check_database

SQLITE, POSTGRES = "sqlite", "postgres"
BACKENDS = (SQLITE, POSTGRES)


class CopiedTable(NamedTuple):
    name: str
    source: int  #: rows
    before: int  #: rows of the target
    after: int


#: Called with the name of a table, the rows that are copied, and the rows of the source.
Progress = Callable[[str, int, int], None]


def copy_state(settings: Settings, source: str, target: str, progress: Progress) -> list[CopiedTable]:
    """Raises SettingsError if a setting is missing, and StorageError if a backend fails or its tables have
    another version."""
    if not settings.state.url:
        raise SettingsError(
            "BRIDGE_STATE_URL is not set: set it to the address of the PostgreSQL database, such as "
            "postgresql://user:password@host:5432/database"
        )
    if source == SQLITE and not settings.state.dir.is_dir():
        raise SettingsError(f"there is no state folder {settings.state.dir}: set BRIDGE_STATE_DIR")
    check_database(settings)
    pairs = list(zip(_tables(settings, source), _tables(settings, target), strict=True))
    _refuse_other_keys(*pairs[0])
    return [_copied(here, there, progress) for here, there in pairs]


def _tables(settings: Settings, backend: str) -> list[StoredTable]:
    if backend == SQLITE:
        return sqlite_tables(settings.state.dir)
    from bridge.state.postgres.tables import postgres_tables  # its packages are an extra

    return postgres_tables(settings.state.url)


def _copied(source: StoredTable, target: StoredTable, progress: Progress) -> CopiedTable:
    name, rows, before, done = source.shape.name, source.count(), target.count(), 0
    progress(name, 0, rows)
    for page in source.pages():
        target.add(page)
        done += len(page)
        progress(name, done, max(rows, done))
    return CopiedTable(name, rows, before, target.count())


def _refuse_other_keys(source: StoredTable, target: StoredTable) -> None:
    """A name means one key. Two keys of one name belong to two installations."""
    known = {name.lower(): key_id for page in target.pages() for key_id, name, *_ in page}
    other = [
        name
        for page in source.pages()
        for key_id, name, *_ in page
        if known.get(name.lower(), key_id) != key_id
    ]
    if other:
        raise StorageError(
            f"the target has other keys with these names: {', '.join(sorted(other))}; it belongs to another "
            "installation. Copy into an empty target"
        )
