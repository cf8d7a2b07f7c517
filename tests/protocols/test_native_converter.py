"""Any native request is accepted, or refused with the field named."""

from __future__ import annotations

from typing import Any

from conversations import CONVERSATIONS
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import fitted

from bridge.errors import InvalidRequest
from bridge.gemini.wire import request_to_json
from bridge.protocols.base import Caller
from bridge.protocols.gemini_native import PROTOCOL
from bridge.web.routes import validated

CALLER = CONVERSATIONS["gemini_native"].callers[""]
EMBED = Caller(path={"model": "m", "method": "embedContent"})
BATCH = Caller(path={"model": "m", "method": "batchEmbedContents"})

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.text(max_size=3), below, max_size=2),
    max_leaves=4,
)


def message(needs: tuple[str, ...] = (), **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with some of the fields, some of them invalid."""
    odd = {name: _mostly(value) for name, value in fields.items()}
    needed = {name: odd.pop(name) for name in needs}
    return st.fixed_dictionaries(needed, optional=odd)


def _mostly(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 30).flatmap(lambda drawn: ANYTHING if drawn == 30 else value)


def several(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return one | st.lists(one, max_size=3)


NAMES = st.sampled_from(["f", "g", "a b"])
BLOB = message(("mimeType", "data"), mimeType=st.just("image/png"), data=st.just("aGk="))
CALL = message(("name",), id=NAMES, name=NAMES, args=st.dictionaries(NAMES, ANYTHING, max_size=2))
RESPONSE = message(
    ("name",), id=NAMES, name=NAMES, response=st.just({"output": 1}), parts=several(message(inlineData=BLOB))
)
PART = message(
    text=st.text(max_size=3),
    thought=st.booleans(),
    thought_signature=NAMES,
    functionCall=CALL,
    function_response=RESPONSE,
    inlineData=BLOB,
    fileData=message(("fileUri",), fileUri=NAMES),
    toolCall=ANYTHING,
)
CONTENT = message(("parts",), role=st.sampled_from(["user", "model", "function"]), parts=several(PART))
REQUEST = message(
    ("contents",),
    contents=several(CONTENT),
    systemInstruction=CONTENT,
    tools=several(
        message(functionDeclarations=several(message(("name",), name=NAMES)), googleSearch=ANYTHING)
    ),
    toolConfig=message(
        functionCallingConfig=message(
            mode=st.integers(-1, 6), allowedFunctionNames=st.lists(NAMES, max_size=2)
        )
    ),
    generationConfig=message(maxOutputTokens=st.integers(), thinkingConfig=ANYTHING, candidateCount=ANYTHING),
    unknown=ANYTHING,
)


def understood(of: Any, body: Any, caller: Caller) -> Any:
    """Return the converted request, or None for a proper refusal."""
    refused: InvalidRequest | None = None
    try:
        return of.to_gemini(validated(of.schema, body), caller)
    except InvalidRequest as error:
        refused = error
    assert refused.param
    return None


@settings(max_examples=400)
@given(REQUEST)
def test_any_request_is_accepted_or_refused(body):
    asked = understood(PROTOCOL, body, CALLER)
    if asked is not None:
        request, _ = fitted(asked.request)
        sent = request_to_json(request)
        assert sent["contents"]
        assert sent.get("unknown") == body.get("unknown")


@given(message(contents=several(CONTENT), generateContentRequest=REQUEST))
def test_any_token_count_request_is_accepted_or_refused(body):
    asked = understood(PROTOCOL.counting, body, CALLER)
    if asked is not None:
        assert fitted(asked.request)[0].contents


@given(message(content=CONTENT, requests=several(message(content=CONTENT)), taskType=ANYTHING))
def test_any_embedding_request_is_accepted_or_refused(body):
    for caller in (EMBED, BATCH):
        asked = understood(PROTOCOL.embedding, body, caller)
        if asked is not None:
            assert asked.body("m", asked.contents).get("taskType") == body.get("taskType")
