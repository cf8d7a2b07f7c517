"""`gemini-bridge cache`: the request cache."""

from __future__ import annotations

import argparse
import json
import sys

from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.settings import load
from bridge.settings.value import suggestion
from bridge.state.errors import StorageError
from bridge.state.store import PATIENT
from bridge.state.stores import Stores, open_stores


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    words = "delete the cached answers"
    clear = actions.add_parser("clear", help=words, description=words)
    clear.add_argument("--key", metavar="NAME", help="only the answers that were made for this key")
    clear.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: argparse.Namespace) -> int:
    stores = open_stores(load(), PATIENT)
    try:
        scope = _scope(stores, arguments.key)
        if scope is None and arguments.key is not None:
            print(
                f"{PROGRAM}: there is no key {arguments.key!r}; {_near(stores, arguments.key)}",
                file=sys.stderr,
            )
            return FAILED
        deleted = stores.request_cache.clear(scope)
    except StorageError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return FAILED
    if arguments.json:
        print(json.dumps({"deleted": deleted}))
    else:
        print(f"{deleted:,} cached answer{'' if deleted == 1 else 's'} deleted.")
    return 0


def _scope(stores: Stores, name: str | None) -> str | None:
    """The scope of this key's answers; None without a name, or if there is no such key."""
    if name is None:
        return None
    return next((key.storage_owner for key in stores.keys.all() if key.name == name), None)


def _near(stores: Stores, wrong: str) -> str:
    names = [key.name for key in stores.keys.all()]
    return suggestion(wrong, names) if names else "there are no keys"


CACHE = Command(
    _run,
    "the request cache: clear",
    _arguments,
    (
        Example("cache clear", "delete all cached answers"),
        Example("cache clear --key alice", "delete only those that were made for the key alice"),
    ),
)
