"""Valid client requests and the resulting Gemini requests; invalid requests and their errors.

A case is two files: `valid/NAME.json` and `NAME.gemini.json`, or `invalid/NAME.json` and `NAME.error.json`.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from conversations import CONVERSATIONS
from gemini_rules import broken_request_rules
from gunicorn_bridge import ROOT
from transcripts import ACCEPT, fitted

from bridge.errors import BridgeError
from bridge.gemini.wire import request_to_json
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import ConvertedRequest, Protocol
from bridge.web.routes import validated

FOLDER = ROOT / "tests" / "requests"


def cases(kind: str, beside: str) -> list[tuple]:
    return [
        pytest.param(protocol, path, path.with_suffix(beside), id=f"{protocol.name}-{path.stem}")
        for protocol in PROTOCOLS
        for path in sorted((FOLDER / protocol.name / kind).glob("*.json"))
        if path.suffixes == [".json"]
    ]


def not_called(asked: ConvertedRequest) -> list[str]:
    """What is lost where the administrator allows no server."""
    servers = asked.hosted.servers if asked.hosted else ()
    return [loss for server in servers for loss in server.losses]


def compare(result: object, expected: Path) -> None:
    if ACCEPT:
        expected.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2) + b"\n")
    assert orjson.loads(orjson.dumps(result)) == orjson.loads(expected.read_bytes())


def read(protocol: Protocol, path: Path) -> ConvertedRequest:
    body = validated(protocol.schema, orjson.loads(path.read_bytes()))
    return protocol.to_gemini(body, CONVERSATIONS[protocol.name].callers[""])


@pytest.mark.parametrize(("protocol", "path", "expected"), cases("valid", ".gemini.json"))
def test_a_request_becomes_the_recorded_gemini_request(protocol, path, expected):
    asked = read(protocol, path)
    request, adapter = fitted(asked.request)
    assert broken_request_rules(request, prefill=True) == []
    result = {"body": request_to_json(request)}
    if notes := sorted((*asked.losses, *not_called(asked), *adapter.notes)):
        result["notes"] = notes
    compare(result, expected)


@pytest.mark.parametrize(("protocol", "path", "expected"), cases("invalid", ".error.json"))
def test_an_invalid_request_is_refused_with_the_field_named(protocol, path, expected):
    with pytest.raises(BridgeError) as refused:
        fitted(read(protocol, path).request)
    error = refused.value
    assert 400 <= error.status < 500
    assert error.param
    compare(protocol.error_body(error, ""), expected)
