"""`gemini-bridge key`: the clients' keys. A new one is printed once, alone on stdout, and so can be piped."""

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
from bridge.cli.command import FAILED, PROGRAM, Command
from bridge.cli.key_values import add_options, changed, duration, name
from bridge.cli.table import lined_up
from bridge.settings import load
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
    "cost_per_day": "cost {:g}/day",
    "streams": "{:,} at a time",
}

_COLUMNS = ("name", "owner", "state", "models", "limits", "from", "expires", "dialect")


def _add(store: KeyStore, arguments: argparse.Namespace) -> int:
    rules = changed(Rules(), arguments)
    first = arguments.new_store or not store.all()
    secret = (begin_anew if arguments.new_store else add_key)(store, arguments.name, rules)
    print(secret)
    _warn_of_patterns(rules)
    _explain(f"This is the key {arguments.name!r}. It is shown this once, and kept only as a digest.")
    if first:
        _explain("It is the first: from now on the bridge serves nobody without a key.")
    return 0


def _rotate(store: KeyStore, arguments: argparse.Namespace) -> int:
    print(rotate_key(store, arguments.name, arguments.grace))
    left = f"for another {arguments.grace / 3600:g} h" if arguments.grace else "no longer"
    _explain(f"This is the new value of the key {arguments.name!r}; the old one is good {left}.")
    return 0


def _revoke(store: KeyStore, arguments: argparse.Namespace) -> int:
    key = store.revoke(arguments.name)
    _explain(f"The key {key.name!r} is revoked. Every worker knows within two seconds.")
    return 0


def _set(store: KeyStore, arguments: argparse.Namespace) -> int:
    key = store.change(arguments.name, lambda rules: changed(rules, arguments))
    print(_details(store, key))
    _warn_of_patterns(key.rules)
    return 0


def _show(store: KeyStore, arguments: argparse.Namespace) -> int:
    key = next((key for key in store.all() if key.name.lower() == arguments.name.lower()), None)
    if key is None:
        raise NoSuchKey(arguments.name)
    print(_details(store, key))
    return 0


def _list(store: KeyStore, arguments: argparse.Namespace) -> int:
    keys = store.all()
    if arguments.json:
        print(json.dumps([_as_json(key) for key in keys], indent=2))
        return 0
    if not keys:
        _explain(f"No key is defined; `{PROGRAM} key add NAME` makes one.")
        return 0
    rows = [tuple(map(str.upper, _COLUMNS))]
    rows += [_row(key) for key in keys]
    print("\n".join(lined_up(rows)))
    return 0


# --- words -------------------------------------------------------------------------------------------


def _explain(text: str) -> None:
    print(text, file=sys.stderr)


def _warn_of_patterns(rules: Rules) -> None:
    """Of patterns that look like names of clients' vendors: they would allow nothing."""
    served = load().models.named
    for pattern in rules.models:
        if "*" in pattern and not any(map(Patterns([pattern]).match, served)):
            _explain(
                f"Note: {pattern!r} fits no model that config/models.toml names. A pattern with * is matched "
                "against the Gemini model that serves; to allow a client's own name, write it without *."
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
    )


def _limits(limits: Limits) -> str:
    said = [
        words.format(getattr(limits, field))
        for field, words in _LIMIT_WORDS.items()
        if getattr(limits, field)
    ]
    return ", ".join(said) or "none"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _details(store: KeyStore, key: Key) -> str:
    rows = list(zip(_COLUMNS, _row(key), strict=True))
    rows.append(("made", _moment(key.created)))
    if key.revoked is not None:
        rows.append(("revoked", _moment(key.revoked)))
    for secret in store.secrets_of(key):
        until = "" if secret.expires is None else f", good until {_moment(secret.expires)}"
        rows.append(("value", f"gbk_…{secret.hint}, made {_moment(secret.created)}{until}"))
    return "\n".join(lined_up(rows))


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
    named: bool = True
    ruled: bool = False


_ACTIONS: Mapping[str, _Action] = {
    "add": _Action(_add, "make a key; it is printed once", ruled=True),
    "list": _Action(_list, "all keys, with what they are good for", named=False),
    "show": _Action(_show, "one key"),
    "set": _Action(_set, "change what a key is good for; what is not named stays", ruled=True),
    "rotate": _Action(_rotate, "give a key a new value; the old one stays good for a while"),
    "revoke": _Action(_revoke, "end a key for good"),
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    for word, action in _ACTIONS.items():
        subparser = actions.add_parser(word, help=action.help, description=action.help)
        if action.named:
            subparser.add_argument("name", type=name, metavar="NAME")
        if action.ruled:
            add_options(subparser)
        if action.run is _add:
            words = "begin a new store, if the old one was lost; all keys of the old one end"
            subparser.add_argument("--new-store", action="store_true", help=words)
        if action.run is _list:
            subparser.add_argument("--json", action="store_true", help="for machines")
        if action.run is _rotate:
            words = "how long the old value stays good: 24h (the default), 30m, 2d, 0"
            subparser.add_argument("--grace", type=duration, default="24h", metavar="TIME", help=words)


def _run(arguments: argparse.Namespace) -> int:
    store = open_stores(load(), PATIENT).keys
    try:
        return _ACTIONS[arguments.action].run(store, arguments)
    except NameTaken as error:
        return _failed(
            f"there is a key {str(error)!r} already, in force or revoked; names are not used twice"
        )
    except KeyRevoked as error:
        return _failed(f"the key {str(error)!r} is revoked, which is for good; make one of another name")
    except NoSuchKey as error:
        return _failed(f"there is no key {str(error)!r}; {_near(store, str(error))}")
    except KeysLost as error:
        return _failed(
            f"{error}. Restore it from a backup; or begin anew with `{PROGRAM} key add NAME --new-store`, "
            "which ends all earlier keys. Until then nobody is let in but those whom a worker knows"
        )
    except StorageError as error:
        return _failed(str(error))


def _near(store: KeyStore, wrong: str) -> str:
    names = [key.name for key in store.all()]
    return suggestion(wrong, names) if names else "none is defined"


def _failed(message: str) -> int:
    print(f"{PROGRAM}: {message}", file=sys.stderr)
    return FAILED


KEY = Command(_run, "the clients' keys: add, list, show, set, rotate, revoke", _arguments)
