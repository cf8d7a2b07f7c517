"""The rules for turns and signatures that the strict variant enforces."""

from __future__ import annotations

import re
from typing import Any

import pytest
from demo_model import (
    ANSWERED,
    SIGNATURE,
    SIGNED,
    TOOLS,
    UNSIGNED,
    USER,
    answered,
    calls,
    parts,
    refusal,
    said,
    text,
    turn,
    wire,
)

from bridge.upstream.demo.strict import RULES

ORDER = "Please ensure that "
UNSIGNED_CALL = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
    "correctly, and missing thought_signature may lead to degraded model performance. Additional data, "
    "function call `default_api:get_weather` , position {}. Please refer to "
    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)
REFUSED: list[tuple[str, list[dict[str, Any]]]] = [
    ("* GenerateContentRequest.contents: contents is not specified", []),
    ("* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.", [USER, turn("user")]),
    (
        "* GenerateContentRequest.contents[0].parts[1].data: required oneof field 'data' must have one "
        "initialized field",
        [turn("user", {"text": "Hi"}, {"text": ""})],
    ),
    ("Please use a valid role: user, model.", [turn("tool", {"text": "Hi"})]),
    (
        ORDER + "function call turn comes immediately after a user turn or after a function response turn.",
        [turn("model", SIGNED), turn("user", ANSWERED)],
    ),
    (
        ORDER + "function call turn comes immediately after a user turn or after a function response turn.",
        [USER, turn("model", {"text": "Well"}), turn("model", SIGNED), turn("user", ANSWERED)],
    ),
    (
        ORDER + "function response turn comes immediately after a function call turn.",
        [turn("user", ANSWERED)],
    ),
    (
        ORDER + "the number of function response parts is equal to the number of function call parts of the "
        "function call turn.",
        [USER, turn("model", SIGNED, UNSIGNED), turn("user", ANSWERED)],
    ),
    (
        ORDER + "the number of function response parts is equal to the number of function call parts of the "
        "function call turn.",
        [USER, turn("model", SIGNED), USER],
    ),
    ("Requests ending with a model turn are not supported.", [USER, turn("model", {"text": "So"})]),
    (
        "Invalid value at 'contents[1].parts[0].thought_signature' (TYPE_BYTES), "
        'Base64 decoding failed for "a?"',
        [USER, turn("model", UNSIGNED | {"thoughtSignature": "a?"}), turn("user", ANSWERED)],
    ),
    (
        "Corrupted thought signature.",
        [USER, turn("model", {"text": "Hm", "thoughtSignature": "Zm9yZWlnbg=="}), USER],
    ),
    (
        UNSIGNED_CALL.format(2),
        [USER, turn("model", UNSIGNED), turn("user", ANSWERED)],
    ),
    (
        UNSIGNED_CALL.format(4),
        [
            USER,
            turn("model", SIGNED),
            turn("user", ANSWERED, {"text": "Go on"}),
            turn("model", UNSIGNED),
            turn("user", ANSWERED),
        ],
    ),
]


@pytest.mark.parametrize(("message", "contents"), REFUSED)
def test_strict_refuses_with_geminis_messages(message: str, contents: list[dict[str, Any]]) -> None:
    error = refusal({"contents": contents}, "demo-strict")
    assert (error["status"], error["message"]) == ("INVALID_ARGUMENT", message)
    assert wire({"contents": contents})


def test_strict_checks_instructions_and_names_too() -> None:
    hollow = refusal(said("Hi", systemInstruction={"parts": [{"text": ""}]}), "demo-strict")
    assert hollow["message"].startswith("* GenerateContentRequest.system_instruction.parts[0].data: ")
    misnamed = refusal(said("Hi", tools=[{"functionDeclarations": [{"name": "21st"}]}]), "demo-strict")
    assert "Invalid function name. Must start with a letter or an underscore." in misnamed["message"]


def test_every_strict_rule_is_tested() -> None:
    patterns = [re.sub(r"\\{\w+\\}", ".*", re.escape(rule.message)) for rule in RULES]
    tested = {message for message, _ in REFUSED}
    unmatched = [pattern for pattern in patterns if not any(re.fullmatch(pattern, each) for each in tested)]
    assert len(unmatched) == 2  # instructions and names are tested separately


@pytest.mark.parametrize(
    "model_parts",
    [
        [SIGNED],
        [SIGNED, UNSIGNED],
        [{"text": "Let me see."}, SIGNED],
        [{"text": "", "thought": True, "thoughtSignature": SIGNATURE}, UNSIGNED],
        [UNSIGNED | {"thoughtSignature": "skip_thought_signature_validator"}],
        [UNSIGNED | {"thoughtSignature": "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}],
        [UNSIGNED | {"thoughtSignature": SIGNATURE.replace("+", "-").replace("/", "_")}],
    ],
)
def test_strict_accepts_requests_that_gemini_accepts(model_parts: list[dict[str, Any]]) -> None:
    assert wire(answered(model_parts), "demo-strict")


def test_strict_does_not_look_for_signatures_in_earlier_turns() -> None:
    body = answered([UNSIGNED])
    body["contents"] += [turn("model", {"text": "Fine."}), USER]
    assert wire(body, "demo-strict")


def test_a_strict_conversation_continues_when_the_client_echoes_it() -> None:
    body = said("Use two tools", tools=TOOLS)
    first = wire(body, "demo-strict")
    assert len({call["id"] for call in calls(first)}) == 2
    responses = [
        {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": "fine"}}}
        for call in calls(first)
    ]
    echoed = [part for part in parts(first) if part != {"text": ""}]
    body["contents"] += [turn("model", *echoed), turn("user", *responses)]
    assert "The tools have answered" in text(wire(body, "demo-strict"))
