"""Validates the values of settings and describes the allowed values in error messages.

A value has a kind (text, whole number, …) and rules (ranges, choices, secrets). This module knows no setting
by name and reads no files and no environment variables.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Protocol, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

#: This value lets the bridge choose.
AUTO = "auto"

#: Messages do not repeat a longer text, because it might be a key in the wrong place.
LONGEST_SHOWN = 24

#: Minimum similarity, from 0 to 1, of a misspelt name and the suggested name.
MIN_SIMILARITY = 0.7

OFF = "off"

#: The last characters are shown only of secrets longer than this.
LONGEST_HIDDEN = 12

#: A shorter secret is taken for a placeholder; masking it would mask ordinary words in the log.
SHORTEST_SECRET = 8


class SettingsError(Exception):
    """An error in the settings, with a message for the operator. The message never holds a secret."""


# --- rules -------------------------------------------------------------------------------------------


class ValueRule(Protocol):
    """A rule beyond the kind, given in the type of a setting: `port: Annotated[int, Range(1, 65535)]`."""

    @property
    def description(self) -> str: ...

    def accepts(self, value: Any) -> bool: ...


@dataclass(frozen=True, slots=True)
class Range:
    at_least: float
    at_most: float | None = None

    @property
    def description(self) -> str:
        if self.at_most is None:
            return f" of at least {self.at_least}"
        return f" from {self.at_least} to {self.at_most}"

    def accepts(self, value: Any) -> bool:
        return bool(self.at_least <= value) and (self.at_most is None or bool(value <= self.at_most))


@dataclass(frozen=True, slots=True)
class OneOf:
    names: tuple[str, ...]

    @property
    def description(self) -> str:
        return f": {', '.join(self.names[:-1])} or {self.names[-1]}"

    def accepts(self, value: Any) -> bool:
        return value in self.names


@dataclass(frozen=True, slots=True)
class WebAddress:
    description: str = ": an http:// or https:// address without user, query or fragment"

    def accepts(self, value: Any) -> bool:
        try:
            parts = urlsplit(value)
            _ = parts.port  # an invalid port raises only on access
        except ValueError:
            return False
        plain = not (parts.username or parts.password or parts.query or parts.fragment)
        return plain and parts.scheme in ("http", "https") and bool(parts.hostname)


@dataclass(frozen=True, slots=True)
class WebAddressOrOff(WebAddress):
    description: str = ": off, or an http:// or https:// address without user, query or fragment"

    def accepts(self, value: Any) -> bool:
        return value == OFF or WebAddress.accepts(self, value)


@dataclass(frozen=True, slots=True)
class Networks:
    description: str = ", each an address such as 10.1.2.3 or a range such as 10.0.0.0/8"

    def accepts(self, value: Any) -> bool:
        return all(map(_is_network, value))


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class WebAddressOrAuto(WebAddress):
    description: str = f": {AUTO}, or an http:// or https:// address without user, query or fragment"

    def accepts(self, value: Any) -> bool:
        return value == AUTO or WebAddress.accepts(self, value)


@dataclass(frozen=True, slots=True)
class MatchesPattern:
    pattern: str
    description: str

    def accepts(self, value: Any) -> bool:
        return re.fullmatch(self.pattern, value) is not None


@dataclass(frozen=True, slots=True)
class Secret:
    description: str = ", each of ASCII letters, digits and punctuation without spaces"

    def accepts(self, value: Any) -> bool:
        return all(text.isascii() and text.isprintable() and " " not in text for text in value)

    def shown(self, value: str) -> str:
        return masked(value)


#: Messages do not repeat values with these rules, because an address may hold a password.
PRIVATE = (Secret, WebAddress)


# --- kinds -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ValueKind:
    description: str
    read: Callable[[Any], Any]  #: returns the converted value; raises ValueError for any other kind


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def _whole_number(value: Any) -> int:
    if type(value) is not int:  # bool is a subclass of int, but `true` is no number
        raise ValueError
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError
    try:
        return float(value)
    except OverflowError:
        raise ValueError from None


def _switch(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [text for text in value.split(",") if text.strip()]
    if not isinstance(value, list):
        raise ValueError
    return tuple(dict.fromkeys(map(_text, value)))


def _date(value: Any) -> date:
    if isinstance(value, str):
        return date.fromisoformat(value)
    if not isinstance(value, date) or isinstance(value, datetime):
        raise ValueError
    return value


def _span(value: Any) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError
    least, most = map(_whole_number, value)
    if not 0 <= least <= most:
        raise ValueError
    return least, most


def _named_texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError
    return {name: _text(text) for name, text in value.items()}


def _texts_by_name(value: Any) -> dict[str, dict[str, str]]:
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise ValueError
    return {name: {key: _text(text) for key, text in table.items()} for name, table in value.items()}


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _table_of_texts(value: Any) -> dict[str, str]:
    return {name: _text(text) for name, text in _table(value).items()}


def _tables(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise ValueError
    return value


KINDS: Mapping[Any, ValueKind] = {
    str: ValueKind("a text", _text),
    int: ValueKind("a whole number", _whole_number),
    float: ValueKind("a number", _number),
    float | None: ValueKind("a number", _number),
    bool: ValueKind("true or false", _switch),
    Path: ValueKind("a path", lambda value: Path(_text(value))),
    Path | None: ValueKind("a path", lambda value: Path(_text(value))),
    Mapping[str, str]: ValueKind("a table of texts", _named_texts),
    Mapping[str, Mapping[str, str]]: ValueKind("a table of tables of texts", _texts_by_name),
    Mapping[str, Any]: ValueKind("a table", _table),
    Mapping[str, str]: ValueKind("a table of texts", _table_of_texts),
    date: ValueKind("a date such as 2026-12-01", _date),
    tuple[str, ...]: ValueKind("a list of texts", _texts),
    tuple[int, int] | None: ValueKind("a list of two whole numbers, the smaller first", _span),
    list[dict[str, Any]]: ValueKind("a list of tables, each written as [[name]]", _tables),
}


# --- kind and rules together -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """The kind and the rules of a setting."""

    kind: ValueKind
    rules: tuple[ValueRule, ...] = ()

    @property
    def description(self) -> str:
        return self.kind.description + "".join(rule.description for rule in self.rules)

    @property
    def secret(self) -> Secret | None:
        return next((rule for rule in self.rules if isinstance(rule, Secret)), None)

    @property
    def private(self) -> bool:
        return any(isinstance(rule, PRIVATE) for rule in self.rules)

    def read(self, where: str, raw: object) -> Any:
        """Return the converted value, or raise a SettingsError that begins with `where`."""
        try:
            value = self.kind.read(raw)
        except ValueError:
            value = None
        if value is not None and all(rule.accepts(value) for rule in self.rules):
            return value
        found = "" if self.private else f", not {_described(raw)}"
        raise SettingsError(f"{where} must be {self.description}{found}")


def shape_of(hint: Any) -> Shape:
    if get_origin(hint) is Annotated:
        kind, *rules = get_args(hint)
        return Shape(KINDS[kind], tuple(rules))
    return Shape(KINDS[hint])


def shapes(owner: type) -> dict[str, Shape]:
    """The shapes of the fields of a dataclass, from their types."""
    return {name: shape_of(hint) for name, hint in get_type_hints(owner, include_extras=True).items()}


def read_table(where: str, known: Mapping[str, Shape], table: Mapping[str, object]) -> dict[str, Any]:
    for key in table:
        if key not in known:
            raise SettingsError(f"{where}: {key} is unknown; {suggestion(key, known)}")
    return {key: known[key].read(f"{where}: {key}", raw) for key, raw in table.items()}


# --- texts for messages ------------------------------------------------------------------------------


def suggestion(name: str, known: Collection[str]) -> str:
    near = near_name(name, known)
    return f"did you mean {near}?" if near else f"known names: {', '.join(known)}"


def near_name(name: str, known: Collection[str]) -> str | None:
    """The known name that is most similar, if it is similar enough to be meant."""
    spelt = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), spelt, n=1, cutoff=MIN_SIMILARITY)
    return spelt[near[0]] if near else None


def masked(secret: str) -> str:
    return "••••" + (secret[-4:] if len(secret) > LONGEST_HIDDEN else "")


def _described(raw: object) -> str:
    match raw:
        case bool():
            return str(raw).lower()
        case str() if len(raw) > LONGEST_SHOWN:
            return f"a text of {len(raw)} characters"
        case str() | int() | float():
            return repr(raw)
        case list():
            return "this list"
        case dict():
            return "a table"
        case _:
            return "this"
