"""Requests that grow in one dimension, in every protocol, converted from the client's bytes to Gemini's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import orjson
from conversations import CONVERSATIONS
from transcripts import MemorySignatureStore, counting_ids

from bridge.errors import InvalidRequest
from bridge.gemini import request_schemas, tool_names
from bridge.gemini.conversation import conversation_id, session_in_headers
from bridge.gemini.model_adapter import adapt_request
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.guards.guard_runner import ActiveGuards, GuardRunner
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import Caller, Protocol
from bridge.protocols.json_reading import reject_deep_nesting
from bridge.settings import load
from bridge.settings.guards import GuardModes, GuardSettings, PolicyRule
from bridge.upstream.payloads import request_bytes
from bridge.web.routes import _json_object, validated
from tests.attacks.measuring import Case, Work
from tests.attacks.protocol_writers import PROTOCOL_CLIENTS, Call, Json, ProtocolWriter

#: All capabilities that make the bridge examine a request, even if no real model has all of them.
CAPABILITIES = ModelCapabilities(
    family="test-1",
    needs_signatures=True,
    window=1_000_000,
    output_limit=65_536,
    shared_window=True,
    thinking_budget=(0, 24_576),
)
OBJECT: Json = {"type": "object", "properties": {"a": {"type": "string"}}}


def every_guard() -> ActiveGuards:
    delivered: GuardSettings = load(environ={}).guards
    modes = GuardModes(**{each.name: "enforce" for each in fields(GuardModes)})
    rules = (*delivered.rules, PolicyRule("run*", "deny", "rm .*-rf"), PolicyRule("*", "ask", "sudo|su "))
    return ActiveGuards(replace(delivered, modes=modes, rules=rules))


GUARDS = every_guard()


def understood(
    protocol: Protocol, data: bytes, caller: Caller, capabilities: ModelCapabilities = CAPABILITIES
) -> None:
    """Convert a client's bytes to Gemini's. A refusal is a valid result."""
    request_schemas._CACHE = request_schemas._SchemaCache()  # else the cache makes the second run trivial
    tool_names._cached_legal_name.cache_clear()
    with suppress(InvalidRequest), reject_deep_nesting():
        body = validated(protocol.schema, _json_object(data))
        asked = protocol.to_gemini(body, caller)
        conversation_id("owner", session_in_headers(caller.headers), body, "", asked.request)
        judged: Any = GuardRunner(GUARDS, "request").request(asked.request)
        request = judged if hasattr(judged, "contents") else asked.request
        request_bytes(
            adapt_request(
                request, "gemini-test", capabilities, MemorySignatureStore(), counting_ids().new_id
            )[0]
        )


# --- dimensions --------------------------------------------------------------------------------------

Body = Callable[[ProtocolWriter, int], Json]
DIMENSIONS: dict[str, Body] = {}


def grows(body: Body) -> Body:
    DIMENSIONS[body.__name__] = body
    return body


def _names(n: int, prefix: str = "c") -> list[str]:
    return [f"{prefix}{number}" for number in range(n)]


def _calls(n: int, **more: Any) -> list[Call]:
    return [Call(f"c{number}", "read", {"a": number}, **more) for number in range(n)]


def _with_schema(writer: ProtocolWriter, schema: Json) -> Json:
    return writer.body(writer.user("x"), [writer.tool("t", schema)])


@grows
def messages(writer: ProtocolWriter, n: int) -> Json:
    turns = [turn for _ in range(n) for turn in (*writer.user("Hello"), *writer.model("Hello"))]
    return writer.body([*turns, *writer.user("Go on")])


@grows
def messages_of_one_role(writer: ProtocolWriter, n: int) -> Json:
    return writer.body([turn for _ in range(n) for turn in writer.user("Hello", " ")])


@grows
def content_parts(writer: ProtocolWriter, n: int) -> Json:
    return writer.body([*writer.user(*["x"] * n), *writer.model(*["x", " "] * n), *writer.user("x")])


@grows
def text_length(writer: ProtocolWriter, n: int) -> Json:
    return writer.body(writer.user("word " * 40 * n))


@grows
def text_of_line_ends(writer: ProtocolWriter, n: int) -> Json:
    return writer.body(writer.user("\n" * 100 * n + "x"))


@grows
def text_of_beginnings(writer: ProtocolWriter, n: int) -> Json:
    """Unterminated starts of the patterns that the guards search for."""
    begun = "<system-reminder> -----BEGIN PRIVATE KEY----- ghp_a glpat-a sk-a xoxb-a AIzaA exit code: : "
    turns = [*writer.user(begun * n), *writer.calls(_calls(2)), *writer.results(_calls(2, result=begun))]
    return writer.body([*turns, *turns, *writer.user(begun * n)])


@grows
def text_of_surrogates(writer: ProtocolWriter, n: int) -> Json:
    """Lone surrogates, which valid JSON text cannot hold."""
    return writer.body(writer.user("HALF\\\\u00e9" * 20 * n))


@grows
def images(writer: ProtocolWriter, n: int) -> Json:
    return writer.body(writer.user("x", images=n))


@grows
def tools(writer: ProtocolWriter, n: int) -> Json:
    return writer.body(writer.user("x"), [writer.tool(name, OBJECT) for name in _names(n)])


@grows
def tools_of_one_name(writer: ProtocolWriter, n: int) -> Json:
    return writer.body(writer.user("x"), [writer.tool("t", OBJECT)] * n)


@grows
def tools_of_one_name_with_other_schemas(writer: ProtocolWriter, n: int) -> Json:
    schemas = [{"type": "object", "properties": {name: {}}} for name in _names(n)]
    return writer.body(writer.user("x"), [writer.tool("t", schema) for schema in schemas])


@grows
def length_of_tool_names(writer: ProtocolWriter, n: int) -> Json:
    called = Call("c", "t é" * 50 * n, {})
    turns = [*writer.user("x"), *writer.calls([called]), *writer.results([called])]
    return writer.body(turns, [writer.tool("t" * 50 * n, OBJECT)])


@grows
def odd_tool_names(writer: ProtocolWriter, n: int) -> Json:
    declared = [writer.tool(f"tool {name} é" * 8, OBJECT) for name in _names(n)]
    return writer.body(writer.user("x"), declared)


@grows
def calls_one_after_the_other(writer: ProtocolWriter, n: int) -> Json:
    turns = [t for call in _calls(n) for t in (*writer.calls([call]), *writer.results([call]))]
    return writer.body([*writer.user("x"), *turns])


@grows
def the_same_call_over_and_over(writer: ProtocolWriter, n: int) -> Json:
    call = Call("c", "read", {"a": 1})
    turns = [t for _ in range(n) for t in (*writer.calls([call]), *writer.results([call]))]
    return writer.body([*writer.user("x"), *turns])


@grows
def parallel_calls(writer: ProtocolWriter, n: int) -> Json:
    return writer.body([*writer.user("x"), *writer.calls(_calls(n)), *writer.results(_calls(n))])


@grows
def parallel_calls_of_one_id(writer: ProtocolWriter, n: int) -> Json:
    calls = [Call("c", "read", {})] * n
    return writer.body([*writer.user("x"), *writer.calls(calls), *writer.results(calls)])


@grows
def results_in_another_order(writer: ProtocolWriter, n: int) -> Json:
    turns = [*writer.calls(_calls(n)), *writer.user("x"), *writer.results(_calls(n)[::-1])]
    return writer.body([*writer.user("x"), *turns])


@grows
def calls_without_results(writer: ProtocolWriter, n: int) -> Json:
    turns = [turn for call in _calls(n) for turn in (*writer.calls([call]), *writer.user("x"))]
    return writer.body([*writer.user("x"), *turns])


@grows
def results_without_calls(writer: ProtocolWriter, n: int) -> Json:
    turns = [turn for call in _calls(n) for turn in (*writer.results([call]), *writer.model("x"))]
    return writer.body([*turns, *writer.user("x")])


@grows
def long_results(writer: ProtocolWriter, n: int) -> Json:
    """Results that grow beyond the guard's limit."""
    calls = [Call("c", name, {}, result="line\n" * 80 * n) for name in ("shell", "read_file", "list_dir")]
    turns = [turn for call in calls for turn in (*writer.calls([call]), *writer.results([call]))]
    return writer.body([*writer.user("x"), *turns])


@grows
def results_of_empty_lines(writer: ProtocolWriter, n: int) -> Json:
    names = ("shell", "read_file", "apply_patch", "list_dir")
    calls = [Call(f"c{number}", names[number % 4], {}, result="\n" * 199) for number in range(n)]
    return writer.body([*writer.user("x"), *writer.calls(calls), *writer.results(calls)])


@grows
def results_that_are_json(writer: ProtocolWriter, n: int) -> Json:
    written = orjson.dumps({"found": [{"name": name, "in": ["a"]} for name in _names(n)]}).decode()
    calls = [Call("c", "read", {}, result=written)]
    return writer.body([*writer.user("x"), *writer.calls(calls), *writer.results(calls)])


@grows
def arguments(writer: ProtocolWriter, n: int) -> Json:
    call = Call("c", "read", {name: [name] for name in _names(n)})
    return writer.body([*writer.user("x"), *writer.calls([call]), *writer.results([call])])


@grows
def deep_arguments(writer: ProtocolWriter, n: int) -> Json:
    deep: Json = {}
    for _ in range(min(n, 100)):  # deeper values can be read, but hardly written
        deep = {"a": [deep]}
    call = Call("c", "read", deep)
    return writer.body([*writer.user("x"), *writer.calls([call]), *writer.results([call])])


@grows
def deep_schema(writer: ProtocolWriter, n: int) -> Json:
    deep: Json = {}
    for _ in range(min(n, 100)):
        deep = {"type": "object", "properties": {"a": deep}}
    return _with_schema(writer, deep)


@grows
def schema_properties(writer: ProtocolWriter, n: int) -> Json:
    return _with_schema(writer, {"type": "object", "properties": {name: {} for name in _names(n)}})


@grows
def schema_enum(writer: ProtocolWriter, n: int) -> Json:
    return _with_schema(writer, {"type": "object", "properties": {"a": {"enum": _names(n)}}})


@grows
def schema_any_of(writer: ProtocolWriter, n: int) -> Json:
    return _with_schema(writer, {"type": "object", "anyOf": [{"required": [name]} for name in _names(n)]})


@grows
def schema_references(writer: ProtocolWriter, n: int) -> Json:
    referring = {name: {"$ref": "#/$defs/D", "properties": {"b": {}}} for name in _names(n)}
    return _with_schema(writer, {"type": "object", "properties": referring, "$defs": {"D": OBJECT}})


@grows
def schema_references_in_many_spellings(writer: ProtocolWriter, n: int) -> Json:
    """References to one large definition, whose name has different escapes each time."""
    name = "definition-of-all"
    large = {"type": "object", "description": "x" * 1000 * n}
    referring = {f"p{each}": {"$ref": f"#/$defs/{_spelled(name, each)}"} for each in range(n)}
    return _with_schema(writer, {"type": "object", "properties": referring, "$defs": {name: large}})


def _spelled(name: str, number: int) -> str:
    return "".join(f"%{ord(each):02X}" if number >> place & 1 else each for place, each in enumerate(name))


@grows
def length_of_a_reference(writer: ProtocolWriter, n: int) -> Json:
    referring = {"a": {"$ref": "#" + "/properties/a" * 10 * n}}
    return _with_schema(writer, {"type": "object", "properties": referring})


@grows
def system_instructions(writer: ProtocolWriter, n: int) -> Json:
    return writer.body(writer.user("x"), system=["Be good."] * n)


@grows
def metadata(writer: ProtocolWriter, n: int) -> Json:
    return writer.body(writer.user("x"), metadata=dict.fromkeys(_names(n), "v"))


@grows
def stop_sequences(writer: ProtocolWriter, n: int) -> Json:
    return writer.body(writer.user("x"), stop=["END"] * n)


@grows
def unknown_fields(writer: ProtocolWriter, n: int) -> Json:
    return {**writer.body(writer.user("x")), **{name: [1] for name in _names(n, "unknown_field_")}}


@grows
def signed_calls(writer: ProtocolWriter, n: int) -> Json:
    calls = _calls(n, signature="gb1:test-1:" + "s" * 100)
    turns = [turn for call in calls for turn in (*writer.calls([call]), *writer.results([call]))]
    return writer.body([*writer.user("x"), *turns])


@grows
def signed_thoughts(writer: ProtocolWriter, n: int) -> Json:
    turns = [turn for _ in range(n) for turn in writer.thought("Hm.", "gb1:test-1:s")]
    return writer.body([*writer.user("x"), *turns, *writer.user("x")])


@grows
def length_of_a_signature(writer: ProtocolWriter, n: int) -> Json:
    turns = [*writer.user("x"), *writer.thought("Hm." * 100 * n, "end1:" + "s" * 100 * n)]
    return writer.body([*turns, *writer.user("x")])


# --- dimensions of a single protocol -----------------------------------------------------------------


def _chat_layout(entries: Json, n: int) -> Json:
    calls = PROTOCOL_CLIENTS["openai_chat"].calls(_calls(n))[0]["tool_calls"] if "call" in entries else []
    said = {"role": "assistant", "content": "x" * n if "text" in entries else None, "tool_calls": calls}
    google = {"google": {"parts": [entries] * n}}
    turns = [{"role": "user", "content": "x"}, {**said, "extra_content": google}]
    return PROTOCOL_CLIENTS["openai_chat"].body(turns)


def _additional_tools(n: int) -> Json:
    found = [{"type": "function", "name": name, "parameters": OBJECT} for name in _names(n)]
    items = [{"type": "additional_tools", "tools": [tool]} for tool in found]
    return PROTOCOL_CLIENTS["openai_responses"].body([*items, {"role": "user", "content": "x"}])


def _namespaces(n: int) -> Json:
    inside = [{"type": "function", "name": "t", "parameters": OBJECT}]
    spaces = [{"type": "namespace", "name": name * 50, "tools": inside} for name in _names(n)]
    return PROTOCOL_CLIENTS["openai_responses"].body(PROTOCOL_CLIENTS["openai_responses"].user("x"), spaces)


def _found_tools(n: int) -> Json:
    """Tools found by a search, which Claude Code declares in a different order."""
    names = _names(n)
    declared = [{"name": each, "input_schema": OBJECT, "defer_loading": True} for each in names]
    found = [{"type": "tool_reference", "tool_name": name} for name in names[::-1]]
    results = [{"type": "tool_result", "tool_use_id": "c", "content": found}]
    return PROTOCOL_CLIENTS["anthropic_messages"].body([{"role": "user", "content": results}], declared)


def _allowed_tools(n: int) -> Json:
    writer, allowed = PROTOCOL_CLIENTS["openai_chat"], [{"type": "function", "function": {"name": "c0"}}]
    body = writer.body(writer.user("x"), [writer.tool(name, OBJECT) for name in _names(n)])
    chosen = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": allowed * n}}
    return {**body, "tool_choice": chosen}


def _native_allowed_names(n: int) -> Json:
    writer = PROTOCOL_CLIENTS["gemini_native"]
    body = writer.body(writer.user("x"), [writer.tool(name, OBJECT) for name in _names(n)])
    calling = {"mode": "ANY", "allowedFunctionNames": _names(n)}
    return {**body, "toolConfig": {"functionCallingConfig": calling}}


def _signed_texts(n: int) -> Json:
    """Each signature is in a thought step after its text."""
    writer = PROTOCOL_CLIENTS["gemini_interactions"]
    pair = [*writer.model("Hello"), {"type": "thought", "signature": "dGV4dDM6Z2IxOnRlc3QtMTpz"}]
    return writer.body([*writer.user("x"), *pair * n, *writer.user("x")])


def _safety_settings(n: int) -> Json:
    settings = [{"type": "hate_speech", "threshold": "block_none"}] * n
    formats = [{"type": "text"}, {"type": "image"}] * n
    writer = PROTOCOL_CLIENTS["gemini_interactions"]
    beside = {"safety_settings": settings, "response_format": formats, "response_modalities": ["text"] * n}
    return {**writer.body(writer.user("x")), **beside}


def _google_tools(n: int) -> Json:
    kinds = [{"type": "google_search", "search_types": ["web_search"] * n}, {"type": "google_maps"}]
    used = [{"type": "computer_use", "environment": "browser", "disabled_safety_policies": ["a"] * n}]
    writer = PROTOCOL_CLIENTS["gemini_interactions"]
    allowed = {"allowed_tools": {"mode": "any", "tools": ["t"] * n}}
    body = writer.body(writer.user("x"), [writer.tool("t", OBJECT), *kinds, *used])
    return {**body, "generation_config": {"tool_choice": allowed}}


def _data_url_options(n: int) -> Json:
    url = f"data:image/png{';a=b' * 20 * n}"
    parts = [{"type": "image_url", "image_url": {"url": url}}]
    return PROTOCOL_CLIENTS["openai_chat"].body([{"role": "user", "content": parts}])


def _modalities(n: int) -> Json:
    writer = PROTOCOL_CLIENTS["openai_chat"]
    functions = [{"name": name, "parameters": OBJECT} for name in _names(n)]
    custom = [{"type": "custom", "custom": {"name": name}} for name in _names(n, "custom")]
    return {**writer.body(writer.user("x"), custom), "modalities": ["text"] * n, "functions": functions}


def _instructions_in_the_middle(n: int) -> Json:
    told = [{"role": "system", "content": "Be good."}] * n
    return PROTOCOL_CLIENTS["openai_chat"].body([{"role": "user", "content": "x"}, *told])


def _local_shell_calls(n: int) -> Json:
    action = {"type": "exec", "env": {}, **dict.fromkeys(_names(n), 1)}
    call = {"type": "local_shell_call", "id": "i", "call_id": "c", "action": action}
    chosen = {"type": "allowed_tools", "tools": [{"type": "local_shell"}] * n}
    writer = PROTOCOL_CLIENTS["openai_responses"]
    return {**writer.body([call], [{"type": "local_shell"}]), "tool_choice": chosen}


def _turns(n: int) -> Json:
    """Turns as older SDKs write them."""
    said = [{"type": "text", "text": "x"}] * n
    return PROTOCOL_CLIENTS["gemini_interactions"].body([{"role": "user", "content": said}] * 2)


OWN: dict[str, tuple[str, Callable[[int], Json]]] = {
    "layout of texts": ("openai_chat", lambda n: _chat_layout({"text": 1}, n)),
    "layout of calls": ("openai_chat", lambda n: _chat_layout({"call": True}, n)),
    "allowed tools": ("openai_chat", _allowed_tools),
    "options of a data URL": ("openai_chat", _data_url_options),
    "custom tools and functions": ("openai_chat", _modalities),
    "instructions in the middle": ("openai_chat", _instructions_in_the_middle),
    "local shell calls": ("openai_responses", _local_shell_calls),
    "turns": ("gemini_interactions", _turns),
    "additional tools": ("openai_responses", _additional_tools),
    "namespaces": ("openai_responses", _namespaces),
    "tools that a search found": ("anthropic_messages", _found_tools),
    "allowed names": ("gemini_native", _native_allowed_names),
    "signed texts": ("gemini_interactions", _signed_texts),
    "safety settings and formats": ("gemini_interactions", _safety_settings),
    "Google's tools": ("gemini_interactions", _google_tools),
}


# --- cases -------------------------------------------------------------------------------------------


def _written(body: Json) -> bytes:
    return orjson.dumps(body).replace(b"HALF\\\\\\\\", b"\\ud800\\\\")


def request_case(protocol: Protocol, body: Callable[[int], Json]) -> Case:
    def sized(n: int) -> Work:
        data, caller = _written(body(n)), CONVERSATIONS[protocol.name].callers[""]
        return lambda: understood(protocol, data, caller)

    return sized


def _crowded(protocol: Protocol, n: int) -> Caller:
    """Return a caller with many headers and a long query."""
    caller = CONVERSATIONS[protocol.name].callers[""]
    lines = {f"X-Note-{number}": "value" for number in range(n)} | {"anthropic-version": "2026-10-21"}
    marks = {"codex": ("x-nothing: *",), "bridge": ("*nobody*",)}
    return replace(caller, headers=lines, query=lines, preferences={"marks": marks})


def caller_case(protocol: Protocol) -> Case:
    writer = PROTOCOL_CLIENTS[protocol.name]

    def sized(n: int) -> Work:
        caller = _crowded(protocol, n)
        data = orjson.dumps(writer.body(writer.user(*["x"] * n)))
        return lambda: understood(protocol, data, caller)

    return sized


def request_cases() -> dict[str, Case]:
    """Return a case for every dimension in every protocol."""
    cases: dict[str, Case] = {}
    for protocol in PROTOCOLS:
        writer = PROTOCOL_CLIENTS[protocol.name]
        cases[f"{protocol.name}: headers and query"] = caller_case(protocol)
        for name, body in DIMENSIONS.items():
            said = lambda n, body=body, writer=writer: body(writer, n)  # noqa: E731
            cases[f"{protocol.name}: {name}"] = request_case(protocol, said)
    named = {protocol.name: protocol for protocol in PROTOCOLS}
    own = {f"{owner}: {name}": request_case(named[owner], body) for name, (owner, body) in OWN.items()}
    return cases | own
