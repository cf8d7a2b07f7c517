"""`gemini-bridge explain`: what Gemini would get for a client's request. Nothing is sent."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

import orjson

from bridge.cli.command import FAILED, PROGRAM, Command, Example
from bridge.cli.request_file import read_body
from bridge.settings import Settings, load
from bridge.state.store import PATIENT
from bridge.state.stores import open_stores

if TYPE_CHECKING:
    from bridge.exchange.request_explanation import ExplainedRequest
    from bridge.protocols.base import Caller


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the file with the JSON body of a client's request; - is standard input")
    parser.add_argument("--protocol", help="its protocol; default: found by its fields")
    parser.add_argument("--model", help="the model, for protocols that have it in the address")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(arguments: argparse.Namespace) -> int:
    from bridge.errors import BridgeError  # slow to import, with what it needs
    from bridge.protocols.base import Caller

    settings, body = load(), read_body(arguments.file)
    path = {"model": arguments.model or settings.models.default, "method": "generateContent"}
    try:
        explained = explained_request(arguments.protocol, body, Caller(path=path), settings)
    except BridgeError as error:
        print(f"{PROGRAM}: {error.message}", file=sys.stderr)
        return FAILED
    if arguments.json:
        print(json.dumps(as_json(explained), indent=2))
    else:
        print(_as_text(explained))
    return 0


def explained_request(
    protocol: str | None, body: dict[str, Any], caller: Caller, settings: Settings
) -> ExplainedRequest:
    """Raises BridgeError if the bridge would refuse the request."""
    from bridge.exchange.context_explanation import named_protocol, recognised_protocol
    from bridge.exchange.request_explanation import explain_request
    from bridge.protocols.envelope import validated
    from bridge.web.app import make_services

    found = named_protocol(protocol) if protocol else recognised_protocol(body)
    services = make_services(settings, open_stores(settings, PATIENT))
    return explain_request(found, validated(found.schema, body), caller, services, settings)


def as_json(explained: ExplainedRequest) -> dict[str, Any]:
    return {
        "model": explained.model,
        "body": explained.body,
        "notes": explained.notes,
        "losses": explained.losses,
    }


def _as_text(explained: ExplainedRequest) -> str:
    notes = ", ".join(f"{name} ×{number}" for name, number in sorted(explained.notes.items()))
    body = orjson.dumps(explained.body, option=orjson.OPT_INDENT_2).decode()
    head = [f"model: {explained.model}", f"notes: {notes or 'none'}"]
    return "\n".join([*head, f"losses: {', '.join(explained.losses) or 'none'}", body])


EXPLAIN = Command(
    _run,
    "show what Gemini would get for a client's request",
    _arguments,
    (Example("explain request.json", "the request for Gemini, and what was changed or dropped"),),
)
