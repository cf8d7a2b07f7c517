"""The demo model imitates every fault of Gemini."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest
from demo_model import SIGNED, TOOLS, answered, finishes, parts, play, said, text, turn, wire

from bridge import errors
from bridge.gemini.types import InlineData
from bridge.gemini.wire import chunk_to_json, request_from_json
from bridge.upstream.demo import DemoUpstream, server, signatures
from bridge.upstream.demo.faults import BURST_CHUNKS, FAULTS, HUGE_CHARACTERS, PNG, STALL_SECONDS

#: The outcome of each variant: the raised error, or the last finish reason.
OUTCOMES: dict[str, type[errors.BridgeError] | str | None] = {
    **dict.fromkeys(("think", "tool", "parallel", "strict", "slow", "drip", "burst", "huge"), "STOP"),
    **dict.fromkeys(("early-stop", "usage-late", "empty", "signature-text", "signature-thought"), "STOP"),
    **dict.fromkeys(("code", "image", "grounding", "unicode"), "STOP"),
    **dict.fromkeys(("stall", "cut", "nofinish", "blocked"), None),
    **dict.fromkeys(("starved", "length"), "MAX_TOKENS"),
    "continuation": "CONTINUATION",
    "safety": "SAFETY",
    "recitation": "RECITATION",
    "malformed-call": "MALFORMED_FUNCTION_CALL",
    "unexpected-call": "UNEXPECTED_TOOL_CALL",
    "unknown-finish": "SOMETHING_NEW",
    "400": errors.UpstreamRefused,
    "badkey": errors.UpstreamMisconfigured,
    "overflow": errors.ContextOverflow,
    "403": errors.UpstreamMisconfigured,
    "404": errors.UnknownModel,
    "429": errors.UpstreamRateLimited,
    "429-day": errors.UpstreamRateLimited,
    "500": errors.UpstreamUnreachable,
    "html": errors.UpstreamUnreachable,
    "503": errors.UpstreamOverloaded,
    "504": errors.UpstreamTimeout,
    "drop": errors.UpstreamTruncated,
    "midstream-error": errors.UpstreamOverloaded,
    "midstream-error-data": errors.UpstreamOverloaded,
    "garbage": errors.UpstreamMalformed,
}


def test_every_variant_has_an_outcome() -> None:
    assert OUTCOMES.keys() == FAULTS.keys()


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("way", ["model", "prompt"])
def test_every_variant_is_reached_by_model_and_by_prompt(name: str, way: str) -> None:
    prompt, model = (
        ("Hello", f"demo-{name}") if way == "model" else (f"Hello [demo:{name}]", "gemini-3.1-pro-preview")
    )
    chunks, error = play(said(prompt, tools=TOOLS), model)
    reasons = [each.finish_reason for chunk in chunks for each in chunk.candidates if each.finish_reason]
    outcome = OUTCOMES[name]
    if isinstance(outcome, type):
        assert type(error) is outcome
    else:
        assert error is None
        assert (reasons or [None])[-1] == outcome


def test_the_model_name_comes_before_the_prompt() -> None:
    assert finishes(wire(said("[demo:429] Hello"), "demo-length")) == ["MAX_TOKENS"]


def test_a_demo_marker_applies_until_the_next_user_turn() -> None:
    body = answered([SIGNED])
    body["contents"][0] = turn("user", {"text": "[demo:length] Hello"})
    assert finishes(wire(body)) == ["MAX_TOKENS"]
    body["contents"] += [turn("model", {"text": "So"}), turn("user", {"text": "And now?"})]
    assert finishes(wire(body)) == ["STOP"]


@pytest.mark.parametrize("name", ["cut", "drop", "midstream-error", "midstream-error-data", "garbage"])
def test_a_broken_stream_starts_with_valid_chunks(name: str) -> None:
    chunks, _ = play(said("echo: one two three four five six seven eight"), f"demo-{name}")
    shown = "".join(str(part.data) for chunk in chunks for each in chunk.candidates for part in each.parts)
    assert shown
    assert "one two three four five six seven eight".startswith(shown)
    assert not any(each.finish_reason for chunk in chunks for each in chunk.candidates)


def test_slow_waits_one_second_and_stall_waits_ten_minutes() -> None:
    slow, stall = (list(server.answer(f"demo-{name}", said("Hi")).body) for name in ("slow", "stall"))
    assert set(slow[::2]) == {1.0}
    assert [isinstance(item, bytes) for item in stall] == [True, False]
    assert stall[-1] == STALL_SECONDS


def test_drip_sends_single_bytes_of_the_same_stream() -> None:
    dripped = list(server.answer("demo-drip", said("Hi")).body)
    assert {len(item) for item in dripped if isinstance(item, bytes)} == {1}
    plain, _ = play(said("Hi"), "demo")
    dripping, _ = play(said("Hi"), "demo-drip")
    assert [chunk.candidates for chunk in dripping] == [chunk.candidates for chunk in plain]


def test_burst_arrives_as_one_batch() -> None:
    batches = list(DemoUpstream(pace=0).stream(request_from_json("demo-burst", said("Hi"))))
    assert [len(batch) for batch in batches] == [BURST_CHUNKS]


def test_huge_is_one_chunk_of_ten_megabytes() -> None:
    chunks, _ = play(said("Hi"), "demo-huge")
    assert len(chunks) == 1
    assert len(str(chunks[0].candidates[0].parts[0].data)) == HUGE_CHARACTERS


def test_a_bare_error_is_pretty_printed_json_without_data() -> None:
    last = [
        item for item in server.answer("demo-midstream-error", said("Hi")).body if isinstance(item, bytes)
    ][-1]
    assert last.startswith(b'{\n  "error": {\n    "code": 503,')


def test_quota_errors_have_a_retry_delay() -> None:
    for name, retry_after in (("429", 7), ("429-day", 300)):
        _, error = play(said("Hi"), f"demo-{name}")
        assert error is not None
        assert error.retry_after_seconds == retry_after


def test_overflow_names_both_numbers() -> None:
    _, error = play(said("Hi"), "demo-overflow")
    assert isinstance(error, errors.ContextOverflow)
    assert (error.tokens, error.limit) == (1048577, 1048576)


def test_usage_late_comes_alone_and_last() -> None:
    *before, last = wire(said("Hi"), "demo-usage-late")
    assert not any("usageMetadata" in chunk for chunk in before)
    assert "candidates" not in last
    assert last["usageMetadata"]["totalTokenCount"] > 0


def test_an_early_stop_is_empty_and_followed_by_the_answer() -> None:
    chunks = wire(said("echo: late"), "demo-early-stop")
    assert finishes(chunks) == ["STOP", "STOP"]
    assert "parts" not in chunks[0]["candidates"][0]["content"]
    assert text(chunks) == "late"


def test_blocked_has_feedback_and_no_candidates() -> None:
    (chunk,) = wire(said("Hi"), "demo-blocked")
    assert chunk["promptFeedback"]["blockReason"] == "SAFETY"
    assert "candidates" not in chunk


def test_thinking_ends_with_an_empty_signed_part() -> None:
    *_, last = parts(wire(said("Hi"), "demo-think"))
    assert last["text"] == ""
    assert signatures.is_ours(last["thoughtSignature"])
    assert "thought" not in last


def test_signed_text_stays_visible_text() -> None:
    *_, last = parts(wire(said("echo: seen"), "demo-signature-text"))
    assert last.keys() == {"text", "thoughtSignature"}
    assert last["text"] == "seen"


def test_a_signed_thought_leaves_the_call_unsigned() -> None:
    thought, call, _ = parts(wire(said("Call get_weather", tools=TOOLS), "demo-signature-thought"))
    assert thought.keys() == {"text", "thought", "thoughtSignature"}
    assert call.keys() == {"functionCall"}


def test_the_two_halves_of_a_continuation_are_the_answer() -> None:
    body = said("echo: " + "word " * 40)
    first = wire(body, "demo-continuation")
    token = first[-1]["candidates"][0]["continuationToken"]
    second = wire({**body, "continuationToken": token}, "demo-continuation")
    assert finishes(second) == ["STOP"]
    assert text(first) + text(second) == ("word " * 40).strip()


def test_other_parts_survive_the_decoder() -> None:
    for name in ("code", "image", "grounding", "unicode"):
        sent = wire(said("Hi"), f"demo-{name}")
        received, _ = play(said("Hi"), f"demo-{name}")
        assert [chunk_to_json(chunk) for chunk in received] == sent
    assert "\u2028" in text(wire(said("Hi"), "demo-unicode"))


def test_the_picture_is_a_valid_png() -> None:
    chunks, _ = play(said("Hi"), "demo-image")
    assert isinstance(chunks[-1].candidates[0].parts[0].data, InlineData)
    data = base64.b64decode(PNG, validate=True)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, kinds = 8, []
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        (checksum,) = struct.unpack(">I", data[place + 8 + length : place + 12 + length])
        assert checksum == zlib.crc32(data[place + 4 : place + 8 + length])
        kinds.append(kind)
        place += 12 + length
    assert kinds == [b"IHDR", b"IDAT", b"IEND"]
