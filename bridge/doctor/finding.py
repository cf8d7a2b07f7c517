"""The types of the doctor: a check, the installation that it examines, and its finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from bridge.settings import Settings, SettingsError, load


class Level(StrEnum):
    GREEN = "green"
    YELLOW = "yellow"  #: it works, but the operator should know about it
    RED = "red"
    SKIPPED = "skipped"  #: another problem must be solved first


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. Its texts never contain a key."""

    level: Level
    says: str
    remedy: str = ""


def green(says: str) -> Finding:
    return Finding(Level.GREEN, says)


def yellow(says: str, remedy: str) -> Finding:
    return Finding(Level.YELLOW, says, remedy)


def skipped(cause: str) -> Finding:
    return Finding(Level.SKIPPED, f"not checked: solve “{cause}” first")


def red(says: str, remedy: str) -> Finding:
    return Finding(Level.RED, says, remedy)


@dataclass(frozen=True, slots=True)
class Installation:
    """The examined installation. `settings` raises if they are invalid; the checks that need them are skipped
    then."""

    read: Settings | SettingsError
    public_address: str | None = None  #: the address that clients use
    client_key: str | None = None

    @classmethod
    def local(cls, public_address: str | None = None, client_key: str | None = None) -> Installation:
        try:
            return cls(load(), public_address, client_key)
        except SettingsError as error:
            return cls(error, public_address, client_key)

    @property
    def settings(self) -> Settings:
        if isinstance(self.read, SettingsError):
            raise self.read
        return self.read


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    run: Callable[[Installation], Finding]
    #: Checks that must not be red: otherwise this check would report the same cause again.
    after: tuple[str, ...] = ()
