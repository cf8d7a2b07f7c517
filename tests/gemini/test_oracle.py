"""Requests must match Google's schema: without newer fields they parse into the published protos, and with
them into the types of the newer SDK.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from google.genai import types
from google.generativeai import protos
from google.protobuf import json_format
from gunicorn_bridge import ROOT

REQUESTS = sorted((ROOT / "tests" / "requests").glob("*/valid/*.gemini.json"))
EVERY = pytest.mark.parametrize(
    "path", REQUESTS, ids=lambda path: f"{path.parts[-3]}-{path.name.split('.')[0]}"
)

#: Fields newer than the protos, by the field or list that contains their message.
NEWER = {
    "request": {"serviceTier", "labels"},
    "parts": {
        "thought",
        "thoughtSignature",
        "partMetadata",
        "toolCall",
        "toolResponse",
        "mediaResolution",
        "videoMetadata",
    },
    "executableCode": {"id"},
    "codeExecutionResult": {"id"},
    "safetySettings": {"method"},
    "functionResponse": {"parts"},
    "functionDeclarations": {"parametersJsonSchema"},
    "tools": {"urlContext", "googleMaps", "fileSearch", "computerUse"},
    "googleSearch": {"exclude_domains", "searchTypes"},
    "toolConfig": {"includeServerSideToolInvocations", "retrievalConfig"},
    "generationConfig": {"seed", "responseJsonSchema", "thinkingConfig", "imageConfig", "responseModalities"},
}
#: The content of these fields is the client's own data, and no message of Google's.
FREE = {"args", "response", "parametersJsonSchema", "responseJsonSchema", "labels"}


def without(value: Any, message: str, newer: bool) -> Any:
    """Remove invented fields, whose names begin with `new`, and optionally the newer fields."""
    if isinstance(value, list):
        kept = (without(item, message, newer) for item in value)
        return [item for item in kept if item or item == 0]
    if not isinstance(value, dict) or message in FREE:
        return value
    aside = set() if newer else NEWER.get(message, set())
    return {
        key: without(item, key, newer)
        for key, item in value.items()
        if key not in aside and not key.startswith("new")
    }


def recorded(path: Path, *, newer: bool) -> dict[str, Any]:
    return without(orjson.loads(path.read_bytes())["body"], "request", newer)


@EVERY
def test_googles_protos_parse_our_requests(path):
    body = recorded(path, newer=False)
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    if calling.get("mode") == "VALIDATED":
        calling["mode"] = "ANY"
    request = protos.GenerateContentRequest.pb(protos.GenerateContentRequest())
    json_format.ParseDict(body, request)
    assert len(request.contents) == len(body["contents"])


@EVERY
@pytest.mark.filterwarnings("ignore:.* is not a valid ")
def test_the_newer_sdk_parses_fields_newer_than_the_protos(path):
    body = recorded(path, newer=True)
    for content in (*body["contents"], *filter(None, [body.get("systemInstruction")])):
        types.Content.model_validate(content)
    for tool in body.get("tools", ()):
        types.Tool.model_validate(tool)
    types.ToolConfig.model_validate(body.get("toolConfig", {}))
    generation = {
        name: value for name, value in body.get("generationConfig", {}).items() if value is not None
    }
    types.ImageConfig.model_validate(generation.pop("imageConfig", {}))  # in another SDK class
    types.GenerationConfig.model_validate(generation)


@pytest.mark.parametrize("part", [{"texxt": "Hi"}, {"functionCall": {"naem": "f"}}])
def test_the_oracles_refuse_unknown_fields(part):
    request = protos.GenerateContentRequest.pb(protos.GenerateContentRequest())
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict({"contents": [{"role": "user", "parts": [part]}]}, request)
    with pytest.raises(ValueError, match="Extra inputs"):
        types.Content.model_validate({"role": "user", "parts": [part]})
