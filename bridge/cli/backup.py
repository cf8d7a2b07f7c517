"""`gemini-bridge backup` and `gemini-bridge restore`: state and settings of this machine in one file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.cli.table import format_table
from bridge.settings import Settings, SettingsError, config_folder, load
from bridge.state.backup import create_backup, restore_backup
from bridge.state.errors import StorageError

_SECRETS = "Not in it: the keys of upstreams and the address of a database. Keep those in your secret store."
_DATABASE = (
    "The shared state is in PostgreSQL: {verb} it with {tool}. This file holds only what is on this machine."
)


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="such as gemini-bridge.tar.gz")


def _reported(action: Callable[[Path], None]) -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        try:
            action(arguments.file)
        except StorageError as error:
            print(f"{PROGRAM}: {error}", file=sys.stderr)
            return FAILED
        return 0

    return run


def _backup(file: Path) -> None:
    settings = load()
    tables = create_backup(settings.state.dir, config_folder(), file)
    _print_rows([("rows of", "backup"), *((each.name, str(each.rows)) for each in tables)])
    print(f"Written: {file}, readable only by its owner. It holds prompts and answers. {_SECRETS}")
    _name_the_database(settings, "back up", "pg_dump")


def _restore(file: Path) -> None:
    settings, config = load(), config_folder()
    done = restore_backup(file, settings.state.dir, config)
    head = ("rows of", "before", "backup", "after")
    rows = [
        (each.name, "damaged" if each.before is None else str(each.before), str(each.rows), str(each.after))
        for each in done.tables
    ]
    _print_rows([head, *rows])
    print(f"Settings changed in {config}: {', '.join(done.settings) or 'none'}")
    if done.replaced.exists():
        print(f"The former files are in {done.replaced}; delete the folder when you do not need them.")
    _name_the_database(settings, "restore", "pg_restore")
    _compare_folders(settings)


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    print("\n".join(format_table(rows, right_from=1)))


def _name_the_database(settings: Settings, verb: str, tool: str) -> None:
    if settings.state.url:
        print(_DATABASE.format(verb=verb, tool=tool))


def _compare_folders(before: Settings) -> None:
    try:
        folder = load().state.dir
    except SettingsError as error:
        raise StorageError(f"the state is restored, but the restored settings are invalid: {error}") from None
    if folder != before.state.dir:
        raise StorageError(
            f"the restored settings name another state folder, {folder}: run the same command again"
        )


BACKUP = Command(
    _reported(_backup),
    "copy state and settings into one file, while the bridge runs",
    _file,
    examples=(Example("backup gemini-bridge.tar.gz", "all of this machine in one file"),),
)
RESTORE = Command(
    _reported(_restore),
    "put the state and settings of a backup in place",
    _file,
    examples=(Example("restore gemini-bridge.tar.gz", "while the bridge is stopped"),),
)
