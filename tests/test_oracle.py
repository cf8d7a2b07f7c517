"""What we send must parse into Google's published protos, once the fields newer than them are set aside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

with pytest.warns(FutureWarning, match="All support for the `google.generativeai`"):
    import google.generativeai

from google.generativeai import protos
from google.protobuf import json_format

REQUESTS = sorted((Path(__file__).parent / "requests").glob("*/valid/*.gemini.json"))

#: Fields Google has added since, by the message they stand in.
NEWER = {
    "part": {"thought", "thoughtSignature", "partMetadata"},
    "functionResponse": {"parts"},
    "declaration": {"parametersJsonSchema"},
    "generationConfig": {"seed", "responseJsonSchema", "thinkingConfig"},
}


def without(fields: dict[str, Any], message: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in NEWER[message]}


def older_part(part: dict[str, Any]) -> dict[str, Any]:
    part = without(part, "part")
    if "functionResponse" in part:
        part["functionResponse"] = without(part["functionResponse"], "functionResponse")
    return part


def older(body: dict[str, Any]) -> dict[str, Any]:
    body = dict(body)
    body["contents"] = [
        {**content, "parts": [older_part(part) for part in content["parts"]]} for content in body["contents"]
    ]
    body["tools"] = [
        {
            **tool,
            "functionDeclarations": [without(each, "declaration") for each in tool["functionDeclarations"]],
        }
        if "functionDeclarations" in tool
        else tool
        for tool in body.get("tools", ())
    ]
    body["generationConfig"] = without(body.get("generationConfig", {}), "generationConfig")
    if body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode") == "VALIDATED":
        body["toolConfig"]["functionCallingConfig"]["mode"] = "ANY"
    return body


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: f"{path.parts[-3]}-{path.name.split('.')[0]}")
def test_google_can_read_what_we_send(path):
    body = older(orjson.loads(path.read_bytes())["body"])
    request = protos.GenerateContentRequest.pb(protos.GenerateContentRequest())
    json_format.ParseDict(body, request)
    assert len(request.contents) == len(body["contents"])


def test_the_oracle_refuses_what_google_does_not_know():
    request = protos.GenerateContentRequest.pb(protos.GenerateContentRequest())
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict({"contents": [{"role": "user", "parts": [{"texxt": "Hi"}]}]}, request)
    assert google.generativeai.__name__
