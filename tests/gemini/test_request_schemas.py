"""The schemas of a request share one size limit in every protocol; their cache is bounded."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
import pytest
import requests
from scripted_gemini import ScriptedGemini

from bridge.errors import InvalidRequest
from bridge.gemini import request_schemas
from bridge.gemini.request_schemas import MAX_TOOLS, RequestSchemas
from bridge.gemini.tool_schema import MAX_EXPANDED_BYTES, MAX_EXPANDED_BYTES_OF_REQUEST, MAX_NODES
from bridge.protocols.anthropic_messages.converter import to_gemini as from_messages
from bridge.protocols.base import Caller, ConvertedRequest
from bridge.protocols.json_reading import LONGEST_NAME
from bridge.protocols.openai_chat.converter import to_gemini as from_chat
from bridge.protocols.openai_responses.converter import to_gemini as from_responses

Schema = dict[str, Any]
ASK = [{"role": "user", "content": "Hello"}]


def bomb(salt: object = "") -> Schema:
    """Return a schema of two kilobytes that expands to a million nodes."""
    definitions: Schema = {
        f"d{level}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/d{level + 1}"} for side in "ab"},
        }
        for level in range(20)
    }
    definitions["d20"] = {"type": "string", "description": str(salt)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


def wide(nodes: int, salt: object = "") -> Schema:
    return {"type": "object", "properties": {f"p{salt}{number}": {} for number in range(nodes - 1)}}


def chat(schemas: list[Schema]) -> ConvertedRequest:
    tools = [
        {"type": "function", "function": {"name": f"t{n}", "parameters": s}} for n, s in enumerate(schemas)
    ]
    return from_chat({"model": "m", "messages": ASK, "tools": tools}, Caller())


def messages(schemas: list[Schema]) -> ConvertedRequest:
    tools = [{"name": f"t{number}", "input_schema": schema} for number, schema in enumerate(schemas)]
    return from_messages({"model": "m", "max_tokens": 9, "messages": ASK, "tools": tools}, Caller())


def functions(schemas: list[Schema]) -> list[dict[str, Any]]:
    return [{"type": "function", "name": f"t{n}", "parameters": s} for n, s in enumerate(schemas)]


def responses(schemas: list[Schema]) -> ConvertedRequest:
    return from_responses({"model": "m", "input": "Hello", "tools": functions(schemas)}, Caller())


def additional(schemas: list[Schema]) -> ConvertedRequest:
    """Declare the tools one by one, as a tool search finds them."""
    items = [{"type": "additional_tools", "tools": [tool]} for tool in functions(schemas)]
    return from_responses({"model": "m", "input": items}, Caller())


#: How each protocol names the parameters of its ninth tool.
PROTOCOLS: dict[str, tuple[Callable[[list[Schema]], ConvertedRequest], str]] = {
    "chat": (chat, "tools[8].function.parameters"),
    "messages": (messages, "tools[8].input_schema"),
    "responses": (responses, "tools[8].parameters"),
    "additional": (additional, "input[8].tools[0].parameters"),
}
every_protocol = pytest.mark.parametrize("name", PROTOCOLS)


@pytest.fixture(autouse=True)
def empty_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_schemas, "_CACHE", request_schemas._SchemaCache())


def refusal(declare: Callable[[list[Schema]], ConvertedRequest], schemas: list[Schema]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        declare(schemas)
    assert refused.value.param is not None
    assert refused.value.message.startswith(refused.value.param)
    return refused.value


# --- one limit for a request -------------------------------------------------------------------------


@every_protocol
@pytest.mark.parametrize("salt", [lambda number: number, lambda _number: ""], ids=["different", "the same"])
def test_the_references_of_all_tools_have_a_common_limit(name: str, salt: Callable[[int], object]) -> None:
    declare, ninth = PROTOCOLS[name]
    assert len(orjson.dumps(bomb())) < 2048
    error = refusal(declare, [bomb(salt(number)) for number in range(128)])
    assert error.param == ninth
    assert f"{MAX_EXPANDED_BYTES_OF_REQUEST} bytes" in error.message


@every_protocol
def test_the_nodes_of_all_tools_have_a_common_limit(name: str) -> None:
    declare, ninth = PROTOCOLS[name]
    some = [wide(MAX_NODES // 8, number) for number in range(8)]
    declare(some)
    error = refusal(declare, [*some, wide(2)])
    assert error.param == ninth
    assert f"{MAX_NODES} nodes" in error.message


@every_protocol
def test_the_number_of_tools_is_limited(name: str) -> None:
    declare, _ = PROTOCOLS[name]
    declare([wide(2)] * MAX_TOOLS)
    assert f"{MAX_TOOLS} tools" in refusal(declare, [wide(2)] * (MAX_TOOLS + 1)).message


def test_the_answer_schema_counts_against_the_same_limit() -> None:
    schemas = RequestSchemas()
    schemas.tool_schema("a", wide(MAX_NODES), "tools[0]")
    with pytest.raises(InvalidRequest, match=r"^text\.format\.schema: .* nodes"):
        schemas.answer_format(wide(2), "text.format.schema")


def test_cached_schemas_count_against_the_limit() -> None:
    for _ in range(2):
        assert refusal(chat, [bomb(number) for number in range(9)]).param == "tools[8].function.parameters"


def test_a_tool_that_a_history_declares_again_counts_once() -> None:
    again = [{"type": "additional_tools", "tools": functions([wide(MAX_NODES // 2)])}] * 200
    asked = from_responses({"model": "m", "input": again}, Caller())
    assert len(asked.request.tools[0].functions) == 1


@every_protocol
def test_cut_references_are_counted_as_losses(name: str) -> None:
    declare, _ = PROTOCOLS[name]
    asked = declare([bomb(1), wide(3), bomb(2)])
    assert asked.losses.count("tools.references_cut") == 2
    sent = orjson.dumps([function.schema for function in asked.request.tools[0].functions])
    assert len(sent) < 3 * MAX_EXPANDED_BYTES


def test_the_tools_of_real_agents_are_accepted() -> None:
    """Six hundred tools with forty properties, each of which references a definition."""
    item = {"type": "object", "properties": {name: {"type": "string"} for name in "abcd"}}
    tool = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": "What it is."} for n in range(40)},
        "$defs": {"Item": item},
    }
    tool["properties"]["items"] = {"type": "array", "items": {"$ref": "#/$defs/Item"}}
    for declare, _ in PROTOCOLS.values():
        assert declare([tool] * 600).losses == ()


def test_the_error_names_the_tool(bridge: Any, gemini: ScriptedGemini) -> None:
    tools = [{"type": "function", "function": {"name": f"t{n}", "parameters": bomb(n)}} for n in range(128)]
    body = {"model": "gpt-5", "messages": ASK, "tools": tools}
    answer = requests.post(f"{bridge.address}/v1/chat/completions", json=body, timeout=30)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools[8].function.parameters")
    assert gemini.asked == []


# --- cost --------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    with suppress(InvalidRequest):
        work()
    return time.thread_time() - began


@every_protocol
def test_many_bombs_cost_no_more_than_the_budget(name: str) -> None:
    declare, _ = PROTOCOLS[name]
    few = min(seconds(lambda: declare([bomb(number) for number in range(9)])) for _ in range(3))
    many = min(seconds(lambda: declare([bomb(number) for number in range(144)])) for _ in range(3))
    assert many < 4 * few + 0.05, "sixteen times as many, and no more of them are written out"


def test_a_reference_above_the_limit_is_measured_once() -> None:
    large = {"type": "string", "description": "v" * MAX_EXPANDED_BYTES}

    def work(references: int) -> Schema:
        named = {f"r{number}": {"$ref": "#/$defs/D"} for number in range(references)}
        return {"type": "object", "properties": named, "$defs": {"D": large}}

    few, many = (
        min(seconds(lambda n=n: RequestSchemas().tool_schema("a", work(n), "p")) for _ in range(3))
        for n in (2000, 8000)
    )
    assert many < 10 * few + 0.25  # repeated measurements would cost milliseconds each


# --- the cache of schemas ----------------------------------------------------------------------------


def doubled(salt: object) -> Schema:
    """Return a schema that is small, but large when expanded."""
    schema = bomb(salt)
    del schema["$defs"]["d0"]
    return {**schema, "properties": {"x": {"$ref": "#/$defs/d16"}}}


SHAPES: dict[str, Callable[[int], Schema]] = {
    "properties": lambda number: wide(100, number),
    "references": doubled,
    "lists": lambda number: {"type": "object", "default": [[]] * 500, "title": str(number)},
    "words": lambda number: {
        "type": "object",
        "enum": [f"{each:02}" for each in range(100)] * 9,
        "title": str(number),
    },
    "numbers": lambda number: {"type": "object", "enum": [0.5, 1.5] * 500, "title": str(number)},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_schema_cache_is_bounded_by_memory_size(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    monkeypatch.setattr(request_schemas, "MAX_CACHED_BYTES", 1 << 20)
    memory = request_schemas._CACHE
    tracemalloc.start()
    try:
        for number in range(100):
            schema = orjson.loads(orjson.dumps(SHAPES[shape](number)))
            RequestSchemas().tool_schema("a", schema, "p")
        del schema
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1 << 20
    assert 3 < len(memory._schemas) < 100
    assert sum(memory._sizes.values()) == memory._size <= 1 << 20


def test_a_schema_larger_than_the_cache_is_not_cached() -> None:
    RequestSchemas().tool_schema("a", wide(8000), "p")
    assert request_schemas._CACHE._size == 0


def test_the_schemas_of_an_agent_stay_cached() -> None:
    schemas = [wide(30, number) for number in range(300)]
    first = [RequestSchemas().tool_schema("a", schema, "p") for schema in schemas]
    again = [RequestSchemas().tool_schema("a", schema, "p") for schema in schemas]
    assert all(one is other for one, other in zip(first, again, strict=True))


# --- names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["tools", "input"])
def test_an_overlong_namespace_name_is_refused(where: str) -> None:
    tools = [{"type": "namespace", "name": "n" * (LONGEST_NAME + 1), "tools": functions([wide(2)] * 100)}]
    body: dict[str, Any] = {"tools": {"input": "Hello", "tools": tools}}.get(
        where, {"input": [{"type": "additional_tools", "tools": tools}]}
    )
    with pytest.raises(InvalidRequest, match=rf"tools\[0\]\.name: must be at most {LONGEST_NAME}"):
        from_responses({"model": "m", **body}, Caller())


def test_nested_namespaces_are_refused_at_any_depth() -> None:
    tool: dict[str, Any] = functions([wide(2)])[0]
    for _ in range(500):
        tool = {"type": "namespace", "name": "n", "tools": [tool]}
    with pytest.raises(InvalidRequest, match=r"tools\[0\]\.tools\[0\]: a namespace"):
        from_responses({"model": "m", "input": "Hello", "tools": [tool]}, Caller())


GROWING: dict[str, Callable[[int], dict[str, Any]]] = {
    "tools of one name": lambda n: {"input": "x", "tools": functions([wide(2)]) * n},
    "tools of one name with other schemas": lambda n: {
        "input": "x",
        "tools": [{**functions([wide(2, number)])[0], "name": "a"} for number in range(n)],
    },
    "additional tools": lambda n: {
        "input": [{"type": "additional_tools", "tools": [tool]} for tool in functions([wide(2)] * n)]
    },
    "one name in many namespaces": lambda n: {
        "input": "x",
        "tools": [
            {
                "type": "namespace",
                "name": f"{'n' * (LONGEST_NAME - 8)}{number}",
                "tools": functions([wide(2)]),
            }
            for number in range(n)
        ],
    },
    "many names in one long namespace": lambda n: {
        "input": "x",
        "tools": [{"type": "namespace", "name": "n" * LONGEST_NAME, "tools": functions([wide(2)] * n)}],
    },
}


@pytest.mark.parametrize("name", GROWING)
def test_the_cost_of_declaring_tools_is_linear(name: str) -> None:
    def cost(number: int) -> float:
        body = {"model": "m", **GROWING[name](number)}
        return min(seconds(lambda: from_responses(body, Caller())) for _ in range(3))

    one, four = cost(1000), cost(4000)
    assert four < 8 * one + 0.02, f"{one:.3f} s for 1000, {four:.3f} s for 4000"
