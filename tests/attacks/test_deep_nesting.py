"""Deeply nested values from clients and upstreams are accepted or refused, in every protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conversations import CONVERSATIONS
from flask.testing import FlaskClient
from transcripts import Run

from bridge.errors import UpstreamMalformed
from bridge.protocols import PROTOCOLS
from bridge.settings import load
from bridge.upstream.demo import DemoUpstream
from bridge.upstream.masking import Mask
from bridge.upstream.payloads import chunks_in
from bridge.web.app import create_app

#: The JSON parser accepts 1024 levels of brackets.
DEEPEST = 1020
DEPTHS = [20, 100, DEEPEST]

#: By protocol and nested value: the path, the text around it, one level, and the innermost value.
NESTED: dict[tuple[str, str], tuple[str, str, str, str]] = {
    ("openai_chat", "unknown field"): (
        "/v1/chat/completions",
        '{"model":"m","messages":[{"role":"user","content":"x"}],"unknown":@}',
        '{"a":@}',
        "1",
    ),
    ("openai_chat", "schema"): (
        "/v1/chat/completions",
        '{"model":"m","messages":[{"role":"user","content":"x"}],'
        '"tools":[{"type":"function","function":{"name":"t","parameters":@}}]}',
        '{"type":"object","properties":{"a":@}}',
        "{}",
    ),
    ("openai_completions", "unknown field"): (
        "/v1/completions",
        '{"model":"m","prompt":"x","unknown":@}',
        '{"a":@}',
        "1",
    ),
    ("openai_completions", "prompts"): ("/v1/completions", '{"model":"m","prompt":[@]}', "[@]", '"x"'),
    ("openai_chat", "embedding"): ("/v1/embeddings", '{"model":"m","input":[@]}', "[@]", '"x"'),
    ("openai_responses", "unknown field"): (
        "/v1/responses",
        '{"model":"m","input":[{"role":"user","content":"x","unknown":@}]}',
        "[@]",
        "1",
    ),
    ("openai_responses", "namespaces"): (
        "/v1/responses",
        '{"model":"m","input":"x","tools":[@]}',
        '{"type":"namespace","name":"n","tools":[@]}',
        '{"type":"function","name":"t"}',
    ),
    ("anthropic_messages", "documents"): (
        "/v1/messages",
        '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[@]}]}',
        '{"type":"document","source":{"type":"content","content":[@]}}',
        '{"type":"text","text":"x"}',
    ),
    ("anthropic_messages", "search results"): (
        "/v1/messages",
        '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[@]}]}',
        '{"type":"search_result","source":"s","title":"t","content":[@]}',
        '{"type":"text","text":"x"}',
    ),
    ("anthropic_messages", "references"): (
        "/v1/messages",
        '{"model":"m","max_tokens":9,"tools":[{"name":"t","input_schema":{},"defer_loading":true}],'
        '"messages":[{"role":"user","content":[{"type":"text","text":"x","content":@}]}]}',
        '[{"content":@}]',
        "[]",
    ),
    ("anthropic_messages", "input of a call"): (
        "/v1/messages",
        '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant",'
        '"content":[{"type":"tool_use","id":"c","name":"t","input":@}]}]}',
        '{"a":@}',
        "{}",
    ),
    ("gemini_native", "responses"): (
        "/v1beta/models/gemini-flash:generateContent",
        '{"contents":[{"role":"user","parts":[@]}]}',
        '{"functionResponse":{"name":"t","response":{},"parts":[@]}}',
        '{"text":"x"}',
    ),
    ("gemini_native", "embedding"): (
        "/v1beta/models/gemini-embedding-001:embedContent",
        '{"content":{"parts":[@]}}',
        '{"functionResponse":{"name":"t","response":{},"parts":[@]}}',
        '{"text":"x"}',
    ),
    ("gemini_interactions", "turns"): (
        "/v1beta/interactions",
        '{"model":"gemini-flash","input":[@]}',
        '{"role":"user","content":[@]}',
        '{"type":"text","text":"x"}',
    ),
    ("gemini_interactions", "result"): (
        "/v1beta/interactions",
        '{"model":"gemini-flash","input":[{"type":"function_result","call_id":"c","result":@}]}',
        '{"a":@}',
        "{}",
    ),
}


def nested(around: str, level: str, core: str, depth: int) -> bytes:
    before, behind = level.split("@")
    inside = depth // (before.count("{") + before.count("[") - before.count("}"))
    return around.replace("@", before * inside + core + behind * inside).encode()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    state: Path = tmp_path_factory.mktemp("state")
    with create_app(load(environ={"BRIDGE_STATE_DIR": str(state)}), DemoUpstream()).test_client() as client:
        yield client


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("case", NESTED, ids=" ".join)
def test_a_deep_request_is_accepted_or_refused(
    client: FlaskClient, case: tuple[str, str], depth: int
) -> None:
    path, around, level, core = NESTED[case]
    answer = client.post(path, data=nested(around, level, core, depth - around.count("[")))
    assert answer.status_code in (200, 400), answer.text


def test_every_protocol_has_nested_cases() -> None:
    assert {protocol for protocol, _ in NESTED} == {protocol.name for protocol in PROTOCOLS}


def converted(part: bytes) -> bytes:
    return (
        b'data: {"candidates":[{"content":{"role":"model","parts":[%b]},"finishReason":"STOP"}]}\r\n\r\n'
        % part
    )


@pytest.mark.parametrize("depth", [150, 300, DEEPEST])
@pytest.mark.parametrize("level", ['{"functionResponse":{"name":"t","response":{},"parts":[@]}}', '{"a":@}'])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_a_deep_answer_is_passed_on_or_malformed(protocol, level: str, depth: int) -> None:
    around = '{"functionCall":{"name":"t","args":{"deep":@}}}' if level.startswith('{"a"') else "@"
    conversation = CONVERSATIONS[protocol.name]
    run = Run(protocol, conversation.opening, caller=conversation.callers[""])
    answer = converted(nested(around, level, '{"text":"x"}', depth - 12))
    try:
        chunks = [chunk for batch in chunks_in([answer], "m", Mask()) for chunk in batch]
    except UpstreamMalformed:
        assert depth > 200
        return
    assert depth < 254
    protocol.framing(run.asked).encode_events(run.whole(chunks))
