"""A folder that the administrator named. No path leads out of it.

A path is opened name by name, relative to the folder that was opened before, and no name may be a symbolic
link: so a link that appears in the meantime has no effect. Hidden files, whose names begin with a dot, do not
exist for tools, because they often hold secrets.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

MOST_FILES = 20_000  #: that one call looks at
MOST_DEPTH = 32
LONGEST_SHOWN = 200  #: characters of a path in a message
LARGEST_FILE = 8 << 20  #: bytes
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not block


class NotInWorkspace(Exception):
    """The path cannot be used. The message is for the model."""


class Entry(NamedTuple):
    name: str
    is_folder: bool
    size: int


class Workspace:
    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def read(self, path: str) -> str:
        """The text of a file. Raises NotInWorkspace."""
        with self._opened(path, os.O_RDONLY) as file:
            size = os.fstat(file).st_size
            if size > LARGEST_FILE:
                raise NotInWorkspace(
                    f"{_shown(path)} has {size} bytes; the largest file to read has {LARGEST_FILE}"
                )
            with os.fdopen(file, "rb", closefd=False) as stream:
                data = stream.read(LARGEST_FILE + 1)
        if b"\0" in data:
            raise NotInWorkspace(f"{_shown(path)} is not a text")
        return data.decode("utf-8", "replace")

    def exists(self, path: str) -> bool:
        try:
            with self._opened(path, os.O_RDONLY):
                return True
        except NotInWorkspace:
            return False

    def write(self, path: str, text: str) -> None:
        """Replace the file as a whole, or create it in a folder that exists. Raises NotInWorkspace."""
        *folders, name = _names(path) or [""]
        if not name:
            raise NotInWorkspace("the path names no file")
        new = f".{name}.{os.getpid()}.new"
        with self._opened_folder(folders, path) as folder:
            self._check_replaceable(name, folder, path)
            try:
                file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o644, dir_fd=folder)
                with os.fdopen(file, "w", encoding="utf-8", newline="") as stream:
                    stream.write(text)
                os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                raise NotInWorkspace(f"{_shown(path)} cannot be written: {error.strerror}") from None

    def _check_replaceable(self, name: str, folder: int, path: str) -> None:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            raise NotInWorkspace(f"{_shown(path)} cannot be written: {error.strerror}") from None
        if not stat.S_ISREG(found.st_mode):
            raise NotInWorkspace(f"{_shown(path)} is not a file")

    def entries(self, path: str) -> list[Entry]:
        """What a folder holds, sorted by name. Raises NotInWorkspace."""
        with self._opened_folder(_names(path), path) as folder:
            return _entries(folder)

    def files(self, path: str = "") -> Iterator[str]:
        """The paths of all files below a folder, at most MOST_FILES. Raises NotInWorkspace."""
        names = _names(path)
        waiting = ["/".join(names)]
        count = 0
        while waiting:
            folder = waiting.pop()
            try:
                entries = self.entries(folder)
            except NotInWorkspace:
                if folder == "/".join(names):
                    raise
                continue  # it was deleted in the meantime
            inner: list[str] = []
            for entry in entries:
                found = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_folder:
                    inner.append(found)
                    continue
                count += 1
                if count > MOST_FILES:
                    return
                yield found
            if folder.count("/") < MOST_DEPTH:
                waiting += reversed(inner)

    # --- opening -------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        *folders, name = _names(path) or [""]
        if not name:
            raise NotInWorkspace("the path names no file")
        with self._opened_folder(folders, path) as folder:
            try:
                file = os.open(name, flags | _FILE, dir_fd=folder)
            except OSError as error:
                raise _not_found(path, error) from None
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise NotInWorkspace(f"{_shown(path)} is not a file")
            yield file
        finally:
            os.close(file)

    @contextmanager
    def _opened_folder(self, names: list[str], path: str) -> Iterator[int]:
        try:
            folder = os.open(self._folder, _FOLDER)
        except OSError as error:
            raise NotInWorkspace(f"the workspace cannot be opened: {error.strerror}") from None
        try:
            for name in names:
                try:
                    inner = os.open(name, _FOLDER, dir_fd=folder)
                except OSError as error:
                    raise _not_found(path, error) from None
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


def _names(path: str) -> list[str]:
    """The names of the path; raises for a path that could lead out, or to a hidden file."""
    if path.startswith("/") or "\\" in path or "\0" in path:
        raise NotInWorkspace(f"{_shown(path)} must be relative to the workspace, with / between the names")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if any(name.startswith(".") for name in names):
        raise NotInWorkspace(f"{_shown(path)} leads out of the workspace or to a hidden file")
    return names


def _shown(path: str) -> str:
    return repr(path if len(path) <= LONGEST_SHOWN else path[:LONGEST_SHOWN] + "…")


def _not_found(path: str, _error: OSError) -> NotInWorkspace:
    """One message for all reasons, so that it tells nothing about what lies behind a link."""
    return NotInWorkspace(f"{_shown(path)} does not exist in the workspace")


def _entries(folder: int) -> list[Entry]:
    found: list[Entry] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not _is_plain(entry):
                continue
            try:
                size = entry.stat(follow_symlinks=False).st_size
            except OSError:  # it was deleted in the meantime
                continue
            found.append(Entry(entry.name, entry.is_dir(follow_symlinks=False), size))
    return sorted(found)


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
