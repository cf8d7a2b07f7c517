"""Converts the request of a flight with today's code, and compares the result with what was kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge.cli.explain import explained_request
from bridge.errors import BridgeError
from bridge.protocols.base import Caller
from bridge.recorder.differences import Difference, differences
from bridge.recorder.export import NothingKept, client_request
from bridge.recorder.flight import GEMINI_REQUEST, Line, of_stage
from bridge.recorder.levels import LEVELS
from bridge.settings import Settings
from bridge.state.flight_store import FlightRow


class Refused(Exception):
    """Today's code refuses the request; the message says why."""


def replayed(row: FlightRow, lines: Sequence[Line], settings: Settings) -> list[Difference]:
    """Raises NotExportable if the flight has no texts or no request to Gemini."""
    request, sent = client_request(lines), of_stage(lines, GEMINI_REQUEST)
    if not sent or "body" not in sent[0]:
        raise NothingKept("the flight contains no request to Gemini that could be compared")
    caller = Caller(headers=request["headers"], path=request["path"], query=request["query"])
    try:
        explained = explained_request(row.protocol, request["body"], caller, settings)
    except BridgeError as error:
        raise Refused(f"the bridge would refuse this request now: {error.message}") from None
    now: Any = LEVELS[row.level]([]).value({"model": explained.model, "body": explained.body})
    return list(differences({name: sent[0][name] for name in ("model", "body")}, now))
