"""`gemini-bridge status`: today's usage and the tightest limit of a key, as one line.

Agents show such a line in their status bar: it must be short, and appear soon or not at all.
"""

from __future__ import annotations

import argparse
import os
import sys

import orjson

from bridge.cli.bridge_address import bridge_address
from bridge.cli.command import FAILED, Command, Example
from bridge.connect.sse_post import PostFailed, get_bytes
from bridge.settings.source import CLIENT_KEY

PATH = "/v1/bridge/me"
TIMEOUT = 5.0


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="address of the bridge, http://HOST:PORT; default: from the settings")
    parser.add_argument("--key", help=f"your key for the bridge; default: the variable {CLIENT_KEY}")
    parser.add_argument("--json", action="store_true", help="print everything that is known, as JSON")


def _status(arguments: argparse.Namespace) -> int:
    address = bridge_address(arguments.url)
    key = arguments.key or os.environ.get(CLIENT_KEY, "")
    headers = {"Accept": "application/json" if arguments.json else "text/plain"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        answer = get_bytes(address + PATH, headers, TIMEOUT)
    except PostFailed as error:
        print(f"bridge: {error.problem}")
        print(error.remedy, file=sys.stderr)
        return FAILED
    if arguments.json:
        answer = orjson.dumps(orjson.loads(answer), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    print(answer.decode("utf-8", "replace"), end="")
    return 0


STATUS = Command(
    _status,
    "print today's usage of a key as one line",
    _arguments,
    (
        Example("status", "for the status bar of an agent; the variable BRIDGE_KEY holds your key"),
        Example("status --url https://ai.example.com --json", "everything that is known about the key"),
    ),
)
