"""Parses the option values of `gemini-bridge key` into the rules of a key."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from bridge.access.key_policy import LONGEST_OWNER, NAME, NAME_RULE
from bridge.settings import ResponsesSettings
from bridge.settings.limits import Limits
from bridge.settings.value import Networks, SettingsError, Shape, shapes
from bridge.state.key_store import Rules

UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
EXPIRY_RULE = "must be a day such as 2027-01-31, a duration such as 90d, or never"
LONGEST = 100 * 365 * 86400  #: seconds

_LIMITS = shapes(Limits)
_DIALECT = shapes(ResponsesSettings)["dialect"]


def parse_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"a name must consist of {NAME_RULE}")
    return text


def parse_owner(text: str) -> str:
    if len(text) > LONGEST_OWNER or not text.isprintable():
        raise argparse.ArgumentTypeError(f"must be one line of at most {LONGEST_OWNER} characters")
    return text.strip()


def parse_models(text: str) -> tuple[str, ...]:
    """The patterns; `*` removes the restriction."""
    patterns = _listed(text)
    return () if "*" in patterns else patterns


def parse_networks(text: str) -> tuple[str, ...]:
    ranges = () if text == "anywhere" else _listed(text)
    rule = Networks()
    if not rule.accepts(ranges):
        raise argparse.ArgumentTypeError(f"must be 'anywhere' or a list{rule.description}")
    return ranges


def parse_duration(text: str) -> float:
    """The duration in seconds."""
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if text == "0":
        return 0.0
    if found is None or (seconds := int(found[1]) * UNITS[found[2]]) > LONGEST:
        raise argparse.ArgumentTypeError("must be 0 or a duration such as 30m, 24h, 90d or 2w")
    return float(seconds)


def parse_expiry(text: str) -> float | None:
    """The time of expiry; for a day, the end of the day in UTC."""
    if text == "never":
        return None
    moment = _end_of_day(text) if "-" in text else time.time() + _time_to_expiry(text)
    if moment <= time.time():
        raise argparse.ArgumentTypeError("must be in the future")
    return moment


def _time_to_expiry(text: str) -> float:
    try:
        return parse_duration(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(EXPIRY_RULE) from None


def _end_of_day(text: str) -> float:
    try:
        return (datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=1)).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(EXPIRY_RULE) from None


def parse_dialect(text: str) -> str:
    try:
        return str(_DIALECT.read("", text))
    except SettingsError:
        raise argparse.ArgumentTypeError(f"must be {_DIALECT.description}") from None


def parse_cache(text: str) -> str:
    if text not in ("on", "off", "auto"):
        raise argparse.ArgumentTypeError("must be on, off or auto")
    return "" if text == "auto" else text


def parse_switch(text: str) -> bool:
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError("must be yes or no")
    return text == "yes"


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _amount(field: str) -> Callable[[str], Any]:
    shape: Shape = _LIMITS[field]

    def read(text: str) -> Any:
        try:
            number: int | float = int(text)
        except ValueError:
            number = _fraction(text)
        try:
            return shape.read("", number)
        except SettingsError:
            raise argparse.ArgumentTypeError(f"must be {shape.description}; 0 means no limit") from None

    return read


def _fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0  # limits cannot be negative, so this is rejected like any other invalid number


# --- the options -------------------------------------------------------------------------------------


class Option(NamedTuple):
    read: Callable[[str], Any]
    field: str  #: the name of a field of Rules or Limits
    metavar: str
    help: str


OPTIONS: Mapping[str, Option] = {
    "--owner": Option(parse_owner, "owner", "TEXT", "the owner of the key, as a note for administrators"),
    "--models": Option(
        parse_models, "models", "PATTERNS", "models that the key may use: 'gemini-*flash*,gpt-5'; '*': all"
    ),
    "--expires": Option(
        parse_expiry, "expires", "WHEN", "2027-01-31 (valid until the end of that day, UTC), 90d, or never"
    ),
    "--from": Option(
        parse_networks,
        "networks",
        "RANGES",
        "addresses that may use the key: 10.0.0.0/8,fd00::/8, or anywhere",
    ),
    "--dialect": Option(
        parse_dialect,
        "dialect",
        "bridge|openai|codex|auto",
        "dialect of /v1/responses; auto: chosen by the client's headers",
    ),
    "--strict": Option(
        parse_switch,
        "strict",
        "yes|no",
        "whether requests of which the bridge would drop a part are refused with status 400",
    ),
    "--cache": Option(
        parse_cache,
        "cache",
        "on|off|auto",
        "the request cache: on, off (even if a request asks for it), or auto (the request decides)",
    ),
    "--rpm": Option(_amount("requests_per_minute"), "requests_per_minute", "N", "requests per minute"),
    "--tpm": Option(
        _amount("tokens_per_minute"), "tokens_per_minute", "N", "input and output tokens per minute"
    ),
    "--tokens-per-day": Option(_amount("tokens_per_day"), "tokens_per_day", "N", "tokens per day (UTC)"),
    "--cost-per-day": Option(_amount("cost_per_day"), "cost_per_day", "X", "cost per day (UTC)"),
    "--streams": Option(_amount("streams"), "streams", "N", "answers that run at the same time"),
}

_OF_LIMITS = {each.name for each in fields(Limits)}


def add_options(parser: argparse.ArgumentParser) -> None:
    for flag, option in OPTIONS.items():
        parser.add_argument(
            flag,
            type=option.read,
            dest=option.field,
            metavar=option.metavar,
            help=option.help,
            default=argparse.SUPPRESS,
        )


def named_rules(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of Rules and Limits that the command line names, with their values."""
    fields_of = [each.field for each in OPTIONS.values()]
    return {field: getattr(arguments, field) for field in fields_of if field in arguments}


def changed(rules: Rules, arguments: argparse.Namespace) -> Rules:
    """The rules with the changes from the command line."""
    given = named_rules(arguments)
    limits = {field: value for field, value in given.items() if field in _OF_LIMITS}
    others = {field: value for field, value in given.items() if field not in _OF_LIMITS}
    return replace(rules, **others, limits=replace(rules.limits, **limits))
