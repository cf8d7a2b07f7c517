"""`gemini-bridge connect`: prints a client's settings, ready to paste, or tests them.

The settings go to standard output and the explanations to standard error, so that
`gemini-bridge connect codex >> file` writes only settings.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import indent

import orjson

from bridge.cli.bridge_address import bridge_address
from bridge.cli.colours import check_mark
from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.cli.model_names import misspelt_model
from bridge.cli.progress_bar import clear_progress, show_progress
from bridge.cli.table import format_table
from bridge.cli.text_width import hanging
from bridge.connect.clients import CLIENTS, PLACEHOLDER_KEY, ClientGuide, Snippet, Target
from bridge.connect.codex_catalog import FILE as CATALOG_FILE
from bridge.connect.codex_catalog import PATH as CATALOG_PATH
from bridge.connect.probe import ProbeFinding, probe, tests_of
from bridge.connect.protocol_clients import PROTOCOL_CLIENTS
from bridge.connect.sse_post import PostFailed, get_json
from bridge.settings import SettingsError, load
from bridge.settings.source import CLIENT_KEY
from bridge.settings.value import suggestion

DETAIL = 34  #: the column in which the detail of a finding begins


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", nargs="?", metavar="CLIENT", help="the client; default: list all clients")
    parser.add_argument("--url", help="address of the bridge, http://HOST:PORT; default: from the settings")
    parser.add_argument("--key", help=f"your key for the bridge; default: the variable {CLIENT_KEY}")
    parser.add_argument("--model", help="the model; default: the setting connect.model")
    parser.add_argument(
        "--catalog", metavar="FILE", help="only for codex: write the list of the bridge's models to FILE"
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="test the settings: stream an answer and call tools through the bridge",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _connect(arguments: argparse.Namespace) -> int:
    if arguments.client is None and not arguments.probe:
        print(_clients_as_json() if arguments.json else _client_list())
        return 0
    client = _client(arguments.client)
    target = _target(arguments)
    if arguments.catalog is not None:
        target = replace(target, catalog=_write_catalog(client, target, arguments.catalog))
    if arguments.probe:
        return _run_probe(client, target, as_json=arguments.json)
    if arguments.json:
        print(_settings_as_json(client, target))
    else:
        _print_settings(client, target)
    return 0


CONNECT = Command(
    _connect,
    "print or test the settings for a client",
    _arguments,
    (
        Example("connect", "list all clients"),
        Example("connect codex >> ~/.codex/config.toml", "add the settings of Codex to its file"),
        Example("connect claude --url https://ai.example.com --probe", "test the settings of Claude Code"),
    ),
    {"client": tuple(CLIENTS)},
)


def _client(name: str | None) -> ClientGuide:
    if name is None:
        raise SettingsError(f"--probe needs a client: {', '.join(CLIENTS)}")
    if name not in CLIENTS:
        raise SettingsError(f"connect: {name} is not a known client; {suggestion(name, CLIENTS)}")
    return CLIENTS[name]


# --- the bridge --------------------------------------------------------------------------------------


def _target(arguments: argparse.Namespace) -> Target:
    """If address and model are given, the settings are not read: this machine may have none."""
    url = bridge_address(arguments.url)
    model = arguments.model or load().model_for_clients
    if arguments.model and not arguments.url and (hint := misspelt_model(model)):
        _explain(f"Note: {hint}", "")
    key = arguments.key or os.environ.get(CLIENT_KEY) or PLACEHOLDER_KEY
    try:
        return Target(url, key, model)
    except ValueError as error:
        raise SettingsError(f"connect: {error}") from None


# --- the catalogue for Codex -------------------------------------------------------------------------


def _write_catalog(client: ClientGuide, target: Target, file: str) -> str:
    """Fetch the bridge's models and write them to the file. Returns the absolute path of the file."""
    if not client.has_catalog:
        raise SettingsError(f"--catalog: {client.name} does not use a catalogue; only codex does")
    path = Path(file).expanduser().absolute()
    try:
        catalog = get_json(target.url + CATALOG_PATH)
    except PostFailed as error:
        raise SettingsError(f"--catalog: {target.url}: {error.problem}. {error.remedy}") from None
    try:
        path.write_bytes(orjson.dumps(catalog, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    except OSError as error:
        raise SettingsError(f"--catalog: {path} cannot be written: {error.strerror}") from None
    return str(path)


# --- output ------------------------------------------------------------------------------------------


def _client_list() -> str:
    rows = [("CLIENT", "", "PROTOCOL")]
    rows += [(each.name, each.title, PROTOCOL_CLIENTS[each.speaks].title) for each in CLIENTS.values()]
    hint = f"{PROGRAM} connect CLIENT prints the settings of a client; --probe tests them."
    return "\n".join([*format_table(rows), "", hint])


def _print_settings(client: ClientGuide, target: Target) -> None:
    _explain(f"{client.title} ({PROTOCOL_CLIENTS[client.speaks].title})", f"{client.main.place}:", "")
    print(client.main.text(target), end="", flush=True)
    others = (snippet for snippet in client.snippets[1:] if _is_needed(snippet, target))
    _explain("", *(_indented(snippet, target) for snippet in others))
    _explain(*(f"• {note}" for note in client.notes))
    if target.key == PLACEHOLDER_KEY:
        _explain(f"• Replace {PLACEHOLDER_KEY} with your key, or use --key.")
    command = [PROGRAM, "connect", client.name, "--url", target.url, "--model", target.model, "--probe"]
    _explain("", f"Test the settings: {shlex.join(command)}")


def _is_needed(snippet: Snippet, target: Target) -> bool:
    """False for the snippet that downloads the catalogue, if the catalogue has already been written."""
    return CATALOG_PATH not in snippet.template or target.catalog == CATALOG_FILE


def _indented(snippet: Snippet, target: Target) -> str:
    return f"{snippet.place}:\n\n{indent(snippet.text(target), '    ')}"


def _explain(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def _run_probe(client: ClientGuide, target: Target, *, as_json: bool) -> int:
    if not as_json:
        print(f"{client.title} on {target.url} with {target.model} ({PROTOCOL_CLIENTS[client.speaks].title})")
    found = []
    try:
        for finding in _watched(client, target):
            found.append(finding)
            if not as_json:
                print(_line(finding), flush=True)
    finally:
        clear_progress()
    if as_json:
        print(json.dumps([{**asdict(finding), "good": finding.good} for finding in found], indent=2))
    return 0 if all(finding.good for finding in found) else FAILED


def _watched(client: ClientGuide, target: Target) -> Iterator[ProbeFinding]:
    """The findings, with a progress bar while a test runs."""
    total = len(tests_of(client))
    show_progress("tests", 0, total)
    for done, finding in enumerate(probe(client, target), 1):
        clear_progress()
        yield finding
        if finding.good and done < total:
            show_progress("tests", done, total)


def _line(finding: ProbeFinding) -> str:
    plain = f"✓ {finding.name:<22}{finding.seconds:6.2f} s   {finding.detail}"
    line = hanging(plain, DETAIL).replace("✓", check_mark(finding.good), 1)
    return line if finding.good else f"{line}\n{hanging(f'  → {finding.remedy}', 4)}"


# --- JSON --------------------------------------------------------------------------------------------


def _clients_as_json() -> str:
    rows = [
        {"name": each.name, "title": each.title, "protocol": PROTOCOL_CLIENTS[each.speaks].title}
        for each in CLIENTS.values()
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False)


def _settings_as_json(client: ClientGuide, target: Target) -> str:
    snippets = [
        {"place": snippet.place, "text": snippet.text(target)}
        for snippet in client.snippets
        if snippet is client.main or _is_needed(snippet, target)
    ]
    shown = {"client": client.name, "url": target.url, "model": target.model, "snippets": snippets}
    return json.dumps({**shown, "notes": list(client.notes)}, indent=2, ensure_ascii=False)
