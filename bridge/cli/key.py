"""`gemini-bridge key`: manages client keys. A new key is the only output on stdout, so it can be piped."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, NamedTuple

from bridge.access.key_issuing import add_key, begin_anew, rotate_key
from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.cli.key_values import add_options, changed, named_rules, parse_duration, parse_name
from bridge.cli.model_names import misspelt_model
from bridge.cli.table import format_table
from bridge.settings import SettingsError, load
from bridge.settings.limits import Limits
from bridge.settings.name_patterns import Patterns
from bridge.settings.value import suggestion
from bridge.state.errors import StorageError
from bridge.state.key_store import Key, KeyRevoked, KeysLost, KeyStore, NameTaken, NoSuchKey, Rules
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores

_LIMIT_WORDS: Mapping[str, str] = {
    "requests_per_minute": "{:,} requests/min",
    "tokens_per_minute": "{:,} tokens/min",
    "tokens_per_day": "{:,} tokens/day",
    "cost_per_day": "cost {:,.10g}/day",
    "streams": "{:,} at the same time",
}

_COLUMNS = ("name", "owner", "state", "models", "limits", "from", "expires", "dialect", "strict", "cache")


def _add(store: KeyStore, arguments: argparse.Namespace) -> int:
    rules = changed(Rules(), arguments)
    first = arguments.new_store or not store.all()
    secret = (begin_anew if arguments.new_store else add_key)(store, arguments.name, rules)
    _print_secret(secret, arguments)
    _warn_of_patterns(rules)
    _explain(f"This is the key {arguments.name!r}. It is shown only once; the bridge stores only its hash.")
    if first:
        _explain("It is the first key: from now on the bridge rejects all requests without a valid key.")
    return 0


def _rotate(store: KeyStore, arguments: argparse.Namespace) -> int:
    _print_secret(rotate_key(store, arguments.name, arguments.grace), arguments)
    old = f"stays valid for {_in_words(arguments.grace)}" if arguments.grace else "is no longer valid"
    _explain(f"This is the new value of the key {arguments.name!r}; the old value {old}.")
    return 0


def _revoke(store: KeyStore, arguments: argparse.Namespace) -> int:
    key = store.revoke(arguments.name)
    if arguments.json:
        print(json.dumps(_as_json(key), indent=2))
    _explain(f"The key {key.name!r} is revoked. All workers reject it within two seconds.")
    return 0


def _set(store: KeyStore, arguments: argparse.Namespace) -> int:
    _named(store, arguments.name)
    if not named_rules(arguments):
        message = "name at least one rule to change, such as --rpm 60; nothing was changed"
        raise SettingsError(f"key set: {message}")
    key = store.change(arguments.name, lambda rules: changed(rules, arguments))
    _print_details(store, key, arguments)
    _warn_of_patterns(key.rules)
    return 0


def _show(store: KeyStore, arguments: argparse.Namespace) -> int:
    _print_details(store, _named(store, arguments.name), arguments)
    return 0


def _named(store: KeyStore, name: str) -> Key:
    key = next((key for key in store.all() if key.name.lower() == name.lower()), None)
    if key is None:
        raise NoSuchKey(name)
    return key


def _list(store: KeyStore, arguments: argparse.Namespace) -> int:
    keys = store.all()
    if arguments.json:
        print(json.dumps([_as_json(key) for key in keys], indent=2))
        return 0
    if not keys:
        _explain(f"There are no keys. To create a key: {PROGRAM} key add NAME")
        return 0
    rows = [tuple(map(str.upper, _COLUMNS))]
    rows += [_row(key) for key in keys]
    print("\n".join(format_table(rows)))
    return 0


# --- output ------------------------------------------------------------------------------------------


def _explain(text: str) -> None:
    print(text, file=sys.stderr)


def _print_secret(secret: str, arguments: argparse.Namespace) -> None:
    print(json.dumps({"name": arguments.name, "key": secret}) if arguments.json else secret)


def _print_details(store: KeyStore, key: Key, arguments: argparse.Namespace) -> None:
    if not arguments.json:
        print(_details(store, key))
        return
    values = [
        {"hint": secret.hint, "created": _iso(secret.created), "expires": _iso(secret.expires)}
        for secret in store.secrets_of(key)
    ]
    print(json.dumps(_as_json(key) | {"values": values}, indent=2))


def _in_words(seconds: float) -> str:
    """A duration of whole minutes in the largest unit that divides it: 86400 is 1 day, 5400 is 90 minutes."""
    units = {"day": 86400, "hour": 3600, "minute": 60}
    unit = next((name for name, size in units.items() if seconds % size == 0), "minute")
    count = round(seconds / units[unit])
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _warn_of_patterns(rules: Rules) -> None:
    """Warn of misspelt models, and of patterns for models of other vendors, because they allow no model."""
    served = [target.model for target in load().models.known_targets]
    for pattern in rules.models:
        if "*" not in pattern and (hint := misspelt_model(pattern)):
            _explain(f"Note: {hint}")
        if "*" in pattern and not any(map(Patterns([pattern]).match, served)):
            _explain(
                f"Note: {pattern!r} matches no Gemini model in config/models.toml. A pattern with * is "
                "compared with the name of the Gemini model. To allow a client's own model name, write it "
                "without *."
            )


def _state(key: Key) -> str:
    if key.revoked is not None:
        return "revoked"
    return "expired" if key.expired(time.time()) else "good"


def _row(key: Key) -> tuple[str, ...]:
    rules = key.rules
    return (
        key.name,
        rules.owner or "-",
        _state(key),
        ", ".join(rules.models) or "all",
        _limits(rules.limits),
        ", ".join(rules.networks) or "anywhere",
        "never" if rules.expires is None else _moment(rules.expires),
        rules.dialect,
        "yes" if rules.strict else "no",
        rules.cache or "auto",
    )


def _limits(limits: Limits) -> str:
    texts = [
        words.format(getattr(limits, field))
        for field, words in _LIMIT_WORDS.items()
        if getattr(limits, field)
    ]
    return ", ".join(texts) or "none"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _details(store: KeyStore, key: Key) -> str:
    rows = list(zip(_COLUMNS, _row(key), strict=True))
    rows.append(("created", _moment(key.created)))
    if key.revoked is not None:
        rows.append(("revoked", _moment(key.revoked)))
    for secret in store.secrets_of(key):
        until = "" if secret.expires is None else f", valid until {_moment(secret.expires)}"
        rows.append(("value", f"gbk_…{secret.hint}, created {_moment(secret.created)}{until}"))
    return "\n".join(format_table(rows))


def _as_json(key: Key) -> dict[str, Any]:
    rules = asdict(key.rules)
    limits = {field: amount for field, amount in rules.pop("limits").items() if amount}
    moments = {
        "expires": _iso(key.rules.expires),
        "made": _iso(key.created),
        "revoked": _iso(key.revoked),
    }
    return {"name": key.name, "state": _state(key), **rules, "limits": limits, **moments}


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


# --- the command -------------------------------------------------------------------------------------


class _Action(NamedTuple):
    run: Callable[[KeyStore, argparse.Namespace], int]
    help: str
    takes_name: bool = True
    takes_rules: bool = False


_ACTIONS: Mapping[str, _Action] = {
    "add": _Action(_add, "create a key and print it once", takes_rules=True),
    "list": _Action(_list, "list all keys with their rules", takes_name=False),
    "show": _Action(_show, "show one key"),
    "set": _Action(_set, "change rules of a key; other rules stay unchanged", takes_rules=True),
    "rotate": _Action(_rotate, "give a key a new value; the old value stays valid for the grace period"),
    "revoke": _Action(_revoke, "revoke a key permanently"),
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for word, action in _ACTIONS.items():
        subparser = actions.add_parser(word, help=action.help, description=action.help)
        if action.takes_name:
            subparser.add_argument("name", type=parse_name, metavar="NAME", help="the name of the key")
        if action.takes_rules:
            add_options(subparser)
        if action.run is _add:
            text = "create a new key store if the old one was lost; all earlier keys become invalid"
            subparser.add_argument("--new-store", action="store_true", help=text)
        subparser.add_argument("--json", action="store_true", help="print JSON")
        if action.run is _rotate:
            text = "how long the old value stays valid, such as 30m, 24h, 2d or 0; default: 24h"
            subparser.add_argument("--grace", type=parse_duration, default="24h", metavar="TIME", help=text)


def _run(arguments: argparse.Namespace) -> int:
    store = open_stores(load(), PATIENT).keys
    try:
        return _ACTIONS[arguments.action].run(store, arguments)
    except NameTaken as error:
        return _failed(
            f"a key {str(error)!r} exists or existed and was revoked; choose a name that was never used"
        )
    except KeyRevoked as error:
        return _failed(f"the key {str(error)!r} is revoked permanently; create a key with another name")
    except NoSuchKey as error:
        return _failed(f"there is no key {str(error)!r}; {_near(store, str(error))}")
    except KeysLost as error:
        return _failed(
            f"{error}. Restore it from a backup, or create a new key store with `{PROGRAM} key add NAME "
            "--new-store`; this invalidates all earlier keys. Until then the bridge accepts only keys that a "
            "worker has in its cache"
        )
    except StorageError as error:
        return _failed(str(error))


def _near(store: KeyStore, wrong: str) -> str:
    names = [key.name for key in store.all()]
    return suggestion(wrong, names) if names else "there are no keys"


def _failed(message: str) -> int:
    print(f"{PROGRAM}: {message}", file=sys.stderr)
    return FAILED


KEY = Command(
    _run,
    "manage client keys: add, list, show, set, rotate, revoke",
    _arguments,
    (
        Example("key add alice --owner 'Alice, research'", "create a key and print it once"),
        Example(
            "key add ci --models 'gemini-*flash*' --expires 90d", "a key for some models, valid for 90 days"
        ),
        Example("key list", "all keys with their rules"),
        Example("key show alice --json", "everything about one key, for programs"),
        Example("key set alice --rpm 60 --cost-per-day 5", "limit a key; its other rules stay unchanged"),
        Example("key rotate alice --grace 24h", "a new value; the old one stays valid for a day"),
        Example("key revoke alice", "end a key for ever; all workers refuse it within two seconds"),
    ),
)
