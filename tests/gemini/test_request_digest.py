"""The digest of a request: every change of a field that Gemini sees changes it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bridge.gemini.request_digest import NOT_COVERED, is_repeatable, request_digest
from bridge.gemini.wire import request_from_json

#: A request with every kind of field that a request of the cache can have.
BODY: dict[str, Any] = {
    "contents": [
        {
            "role": "user",
            "parts": [{"text": "Hello"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
        },
        {
            "role": "model",
            "parts": [{"text": "Well", "thought": True, "thoughtSignature": "c2ln"}, {"text": "Hi"}],
        },
        {"role": "user", "parts": [{"text": "Again", "mediaResolution": {"level": "LOW"}}]},
    ],
    "systemInstruction": {"parts": [{"text": "Be short."}]},
    "generationConfig": {
        "temperature": 0.5,
        "topP": 1,
        "seed": 7,
        "maxOutputTokens": 100,
        "candidateCount": 1,
        "stopSequences": ["END"],
        "responseJsonSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
        "thinkingConfig": {"thinkingLevel": "high", "includeThoughts": True},
        "newField": [{"of": None}],
    },
    "safetySettings": [{"category": "C", "threshold": "OFF"}],
}


def digest(body: dict[str, Any], model: str = "gemini-3.8-flash", upstream: str = "https://a") -> bytes:
    return request_digest(upstream, request_from_json(model, body))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    found = False
    for key, child in children:
        found = True
        yield from leaves(child, (*path, key))
    if not found:
        yield path


def changed(path: tuple[Any, ...]) -> dict[str, Any]:
    body = copy.deepcopy(BODY)
    owner: Any = body
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = {bool: lambda old: not old, str: lambda old: f"{old}x", type(None): lambda _: 0}.get(
        type(owner[path[-1]]), lambda old: old + 1
    )(owner[path[-1]])
    return body


def removed(path: tuple[Any, ...]) -> dict[str, Any]:
    body = copy.deepcopy(BODY)
    owner: Any = body
    for key in path[:-1]:
        owner = owner[key]
    del owner[path[-1]]
    return body


@pytest.mark.parametrize("path", list(leaves(BODY)), ids=lambda path: ".".join(map(str, path)))
def test_every_change_of_a_leaf_changes_the_digest(path):
    different = {digest(BODY), digest(changed(path)), digest(removed(path))}
    assert len(different) == 3


def test_the_model_and_the_upstream_change_the_digest():
    assert len({digest(BODY), digest(BODY, model="gemini-4-argon"), digest(BODY, upstream="https://b")}) == 3


@pytest.mark.parametrize("field", NOT_COVERED)
def test_a_field_that_does_not_change_the_answer_does_not_change_the_digest(field):
    value: Any = {"labels": {"team": "blue"}, "store": False, "serviceTier": "flex"}[field]
    assert digest({**BODY, field: value}) == digest(BODY)


def test_the_order_of_fields_does_not_change_the_digest():
    assert digest(dict(reversed(BODY.items()))) == digest(BODY)


def test_texts_of_different_parts_are_not_mixed_up():
    one = {"contents": [{"parts": [{"text": "ab"}, {"text": "c"}]}]}
    other = {"contents": [{"parts": [{"text": "a"}, {"text": "bc"}]}]}
    assert digest(one) != digest(other)


def test_a_plain_request_is_repeatable():
    assert is_repeatable(request_from_json("m", BODY))


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"functionDeclarations": [{"name": "f"}]}]},
        {"tools": [{"googleSearch": {}}]},
        {"tools": [{"codeExecution": {}}]},
        {"cachedContent": "cachedContents/1"},
        {"contents": [{"parts": [{"functionCall": {"name": "f", "args": {}}}]}]},
        {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {}}}]}]},
        {"contents": [{"parts": [{"fileData": {"fileUri": "https://a/b.png"}}]}]},
        {"contents": [{"parts": [{"executableCode": {"code": "1"}}]}]},
        {"generationConfig": {"candidateCount": 2}},
        {"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}},
    ],
    ids=lambda more: str(more)[:60],
)
def test_a_request_whose_answer_may_change_is_not_repeatable(more):
    assert not is_repeatable(request_from_json("m", {**BODY, **more}))


def test_the_conversation_does_not_change_the_digest():
    request = request_from_json("m", BODY)
    assert request_digest("a", request) == request_digest("a", replace(request, conversation="other"))
