"""`gemini-bridge connect`: a client's settings, ready to paste, or the proof that they work.

The settings go to standard output and what explains them to standard error, so that
`gemini-bridge connect codex >> file` writes settings and nothing else.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import indent

import orjson

from bridge.cli.colours import light
from bridge.cli.command import FAILED, PROGRAM, Command
from bridge.cli.table import lined_up
from bridge.connect.clients import CLIENTS, PLACEHOLDER_KEY, ClientGuide, Snippet, Target
from bridge.connect.codex_catalog import FILE as CATALOG_FILE
from bridge.connect.codex_catalog import PATH as CATALOG_PATH
from bridge.connect.probe import ProbeFinding, probe
from bridge.connect.protocol_clients import PROTOCOL_CLIENTS
from bridge.connect.sse_post import PostFailed, document
from bridge.settings import SettingsError, load
from bridge.settings.source import CLIENT_KEY
from bridge.settings.value import WebAddress, suggestion


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", nargs="?", metavar="CLIENT", help="without one, all clients are listed")
    parser.add_argument("--url", help="the bridge's address, http://HOST:PORT; default: the one set here")
    parser.add_argument("--key", help=f"your key for the bridge; default: the variable {CLIENT_KEY}")
    parser.add_argument("--model", help="default: connect.model of the settings")
    parser.add_argument("--catalog", metavar="FILE", help="for codex: write the bridge's models there")
    parser.add_argument(
        "--probe", action="store_true", help="prove it: a streamed answer and tool calls through the bridge"
    )


def _connect(arguments: argparse.Namespace) -> int:
    if arguments.client is None and not arguments.probe:
        print(_listed())
        return 0
    client = _client(arguments.client)
    target = _target(arguments)
    if arguments.catalog is not None:
        target = replace(target, catalog=_written(client, target, arguments.catalog))
    if arguments.probe:
        return _prove(client, target)
    _print_settings(client, target)
    return 0


CONNECT = Command(_connect, "settings for a client, or the proof they work", _arguments)


def _client(name: str | None) -> ClientGuide:
    if name is None:
        raise SettingsError(f"--probe: name a client: {', '.join(CLIENTS)}")
    if name not in CLIENTS:
        raise SettingsError(f"connect: {name} is not a client known here; {suggestion(name, CLIENTS)}")
    return CLIENTS[name]


# --- the bridge --------------------------------------------------------------------------------------


def _target(arguments: argparse.Namespace) -> Target:
    """With address and model given, the settings of this machine are not looked at: it need not have any."""
    url = _checked(arguments.url) if arguments.url else load().server.address
    model = arguments.model or load().model_for_clients
    key = arguments.key or os.environ.get(CLIENT_KEY) or PLACEHOLDER_KEY
    try:
        return Target(url, key, model)
    except ValueError as error:
        raise SettingsError(f"connect: {error}") from None


def _checked(url: str) -> str:
    rule = WebAddress()
    if not rule.accepts(url):
        raise SettingsError(f"--url must be{rule.description.removeprefix(':')}")
    if url.rstrip("/").endswith(("/v1", "/v1beta")):
        raise SettingsError("--url goes without the /v1: the settings of those clients that need it have it")
    return url.rstrip("/")


# --- the catalogue for Codex -------------------------------------------------------------------------


def _written(client: ClientGuide, target: Target, file: str) -> str:
    """Fetch the bridge's models and write them to the file. Returns the path that settings can name."""
    if not client.has_catalog:
        raise SettingsError(f"--catalog: {client.name} has none; it is for codex")
    path = Path(file).expanduser().absolute()
    try:
        told = document(target.url + CATALOG_PATH)
    except PostFailed as trouble:
        raise SettingsError(f"--catalog: {target.url}: {trouble.what}. {trouble.remedy}") from None
    try:
        path.write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    except OSError as error:
        raise SettingsError(f"--catalog: {path} cannot be written: {error.strerror}") from None
    return str(path)


# --- what is printed ---------------------------------------------------------------------------------


def _listed() -> str:
    rows = [("CLIENT", "", "SPEAKS")]
    rows += [(each.name, each.title, PROTOCOL_CLIENTS[each.speaks].title) for each in CLIENTS.values()]
    hint = f"{PROGRAM} connect CLIENT prints its settings; --probe proves them."
    return "\n".join([*lined_up(rows), "", hint])


def _print_settings(client: ClientGuide, target: Target) -> None:
    _explain(f"{client.title} ({PROTOCOL_CLIENTS[client.speaks].title})", f"{client.main.place}:", "")
    print(client.main.text(target), end="", flush=True)
    _explain("", *(_also(snippet, target) for snippet in client.snippets[1:] if _is_needed(snippet, target)))
    _explain(*(f"• {note}" for note in client.notes))
    if target.key == PLACEHOLDER_KEY:
        _explain(f"• Put your own key in place of {PLACEHOLDER_KEY}, or give it with --key.")
    words = [PROGRAM, "connect", client.name, "--url", target.url, "--model", target.model, "--probe"]
    _explain("", f"Prove it: {shlex.join(words)}")


def _is_needed(snippet: Snippet, target: Target) -> bool:
    """The file that a snippet fetches may have been written already."""
    return CATALOG_PATH not in snippet.template or target.catalog == CATALOG_FILE


def _also(snippet: Snippet, target: Target) -> str:
    return f"{snippet.place}:\n\n{indent(snippet.text(target), '    ')}"


def _explain(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def _prove(client: ClientGuide, target: Target) -> int:
    print(f"{client.title} on {target.url} with {target.model} ({PROTOCOL_CLIENTS[client.speaks].title})")
    failed = False
    for finding in probe(client, target):
        print(_line(finding), flush=True)
        failed = failed or not finding.good
    return FAILED if failed else 0


def _line(finding: ProbeFinding) -> str:
    line = f"{light(finding.good)} {finding.what:<22}{finding.seconds:6.2f} s   {finding.detail}"
    return line if finding.good else f"{line}\n  → {finding.remedy}"
