"""Mutated valid requests are accepted or refused with an error, in every protocol."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from conversations import CONVERSATIONS
from gemini_rules import broken_request_rules, broken_rules
from gunicorn_bridge import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transcripts import fitted

from bridge.errors import InvalidRequest
from bridge.gemini.types import GenerateRequest
from bridge.gemini.wire import request_to_json
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import ConvertedRequest, Protocol
from bridge.web.routes import validated

FOLDER = ROOT / "tests" / "requests"
BY_NAME = {"ids": lambda value: value.name}

WORDS = [
    "",
    " ",
    "user",
    "system",
    "assistant",
    "tool",
    "model",
    "text",
    "auto",
    "none",
    "data:,",
    "{}",
    "\x00",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=3)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "text", "content", "id", "name", ""]), below, max_size=2)
    ),
    max_leaves=4,
)


def valid_bodies(protocol: Protocol) -> list[dict[str, Any]]:
    paths = sorted((FOLDER / protocol.name / "valid").glob("*.json"))
    return [orjson.loads(path.read_bytes()) for path in paths if path.suffixes == [".json"]]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return every nested value as its container and key."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in list(inside):
        yield value, key
        if isinstance(below, dict | list):
            yield from places(below)


@st.composite
def changed(draw: st.DrawFn, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    body = copy.deepcopy(draw(st.sampled_from(bodies)))
    for _ in range(draw(st.integers(1, 3))):
        if not (everywhere := list(places(body))):
            break
        holder, key = draw(st.sampled_from(everywhere))
        match draw(st.sampled_from(["replace", "delete", "insert", "swap"])):
            case "replace":
                holder[key] = draw(ANYTHING)
            case "delete":
                del holder[key]
            case "insert" if isinstance(holder, list):
                holder.insert(key, draw(ANYTHING))
            case "insert":
                holder[draw(st.sampled_from(["type", "id", "name", "content", "role"]))] = draw(ANYTHING)
            case "swap":  # a copy, as JSON has no cycles
                other, place = draw(st.sampled_from(everywhere))
                if isinstance(other, dict) or place < len(other):
                    holder[key] = copy.deepcopy(other.get(place) if isinstance(other, dict) else other[place])
    return body


def result_of(understand: Any) -> Any:
    """Return the result, or None for a proper refusal, which names a field."""
    try:
        return understand()
    except InvalidRequest as error:
        refused = error
    assert refused.param, refused.message
    return None


def broken(protocol: Protocol, request: GenerateRequest) -> list[str]:
    """Other fields of a native request pass unchanged, and Gemini checks them."""
    if protocol.name == "gemini_native":
        return broken_rules(request.contents, prefill=True)
    return broken_request_rules(request, prefill=True)


@pytest.mark.parametrize("protocol", PROTOCOLS, **BY_NAME)
def test_any_mutated_request_is_accepted_or_refused(protocol):
    caller = CONVERSATIONS[protocol.name].callers[""]

    @settings(max_examples=400, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(changed(valid_bodies(protocol)))
    def holds(body: dict[str, Any]) -> None:
        asked = result_of(lambda: protocol.to_gemini(validated(protocol.schema, body), caller))
        if asked is None:
            return
        assert isinstance(asked, ConvertedRequest)
        if (fit := result_of(lambda: fitted(asked.request))) is not None:
            assert broken(protocol, fit[0]) == []
            orjson.dumps(request_to_json(fit[0]))

    holds()


@pytest.mark.parametrize("protocol", [each for each in PROTOCOLS if each.counting], **BY_NAME)
def test_any_mutated_token_count_request_is_accepted_or_refused(protocol):
    caller = CONVERSATIONS[protocol.name].callers[""]
    counting = protocol.counting

    @settings(max_examples=100, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(changed(valid_bodies(protocol)))
    def holds(body: dict[str, Any]) -> None:
        asked = result_of(lambda: counting.to_gemini(validated(counting.schema, body), caller))
        assert (
            asked is None
            or result_of(lambda: fitted(asked.request)) is None
            or isinstance(asked, ConvertedRequest)
        )

    holds()
