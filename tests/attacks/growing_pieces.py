"""Growing input outside of any protocol: bytes in pieces, stored answers, stored signatures."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transcripts import ForgetfulSignatureStore, counting_ids

from bridge.errors import BridgeError
from bridge.gemini.hosted_servers import secrets_in_headers
from bridge.gemini.hosted_tools import with_function_calls
from bridge.gemini.model_adapter import adapt_request
from bridge.gemini.repairs import (
    with_simple_schemas,
    without_refused_combination,
    without_sampling,
    without_signatures,
    without_thinking_amount,
)
from bridge.gemini.request_digest import is_repeatable, request_digest
from bridge.gemini.strict_calls import without_strict_calls
from bridge.gemini.tool_results import tool_response
from bridge.gemini.types import (
    USER,
    Content,
    FunctionCall,
    FunctionDeclaration,
    GenerateRequest,
    Part,
    Tool,
    Usage,
)
from bridge.gemini.wire import chunk_from_json
from bridge.guards.apply_patch import repair_patches
from bridge.guards.guard_runner import GuardRunner
from bridge.guards.shell_arguments import _split_command
from bridge.protocols.anthropic_messages.compaction import compaction_on_demand
from bridge.protocols.anthropic_messages.context_management import context_wishes
from bridge.protocols.anthropic_messages.converter import to_gemini as messages_to_gemini
from bridge.protocols.base import Caller, ConvertedRequest, PastTurn
from bridge.protocols.carried_signatures import for_part, read_thought
from bridge.protocols.gemini_interactions.storing import STORING as INTERACTIONS
from bridge.protocols.gemini_native.converter import counted_to_gemini
from bridge.protocols.gemini_native.embedding import embedding_to_gemini
from bridge.protocols.gemini_native.fold import fold_chunks
from bridge.protocols.openai_chat.part_order import arrange
from bridge.protocols.openai_completions.fences import FenceFilter
from bridge.protocols.openai_completions.gaps import Gap, gap_in_template, question
from bridge.protocols.openai_embeddings import EMBEDDING as OPENAI_EMBEDDING
from bridge.protocols.openai_responses.compaction import COMPACTION, compact
from bridge.protocols.openai_responses.conversations import CONVERSATIONS as RESPONSES_CONVERSATIONS
from bridge.protocols.openai_responses.converter import to_gemini as responses_to_gemini
from bridge.protocols.openai_responses.hosted import code_parts
from bridge.protocols.openai_responses.storing import STORING as RESPONSES
from bridge.protocols.summary_seal import OpenedSummary, StandsFor
from bridge.state.answer_store import LONGEST_CHAIN
from bridge.state.sqlite.answer_store import SqliteAnswerStore
from bridge.state.sqlite.signature_store import SqliteSignatureStore
from bridge.upstream.masking import Mask
from bridge.upstream.transport.body_framing import BadFraming, Chunked
from bridge.upstream.transport.compression import Decompression
from bridge.upstream.transport.response_head import BadHead, HeadReader
from bridge.upstream.transport.sse_decoder import SseDecoder
from bridge.web.routes import _parsed
from tests.attacks.growing_requests import CAPABILITIES, GUARDS
from tests.attacks.measuring import Case, Work

READ = 16_384  #: number of bytes that the bridge reads at once


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def fed(make: Callable[[], Any], data: Callable[[int], bytes], size: int) -> Case:
    """Return work that feeds a decoder in pieces of this size, and then finishes it."""

    def sized(n: int) -> Work:
        pieces = in_pieces(data(n), size)

        def work() -> None:
            decoder = make()
            with suppress(BadFraming, BadHead, BridgeError):
                for piece in pieces:
                    _consume(decoder.feed(piece))
            getattr(decoder, "finish", list)()

        return work

    return sized


def _consume(given: Any) -> None:
    if isinstance(given, Iterable) and not isinstance(given, bytes | list):
        for _ in given:
            pass


def head(n: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + b"Connection: a, b\r\n" * n + b"\r\n"


EVENT = b'data: {"a":1}\r\n\r\n'

DECODERS: dict[str, Case] = {
    "SSE: small events in one piece": fed(SseDecoder, lambda n: EVENT * n, 1 << 30),
    "SSE: small events in reads": fed(SseDecoder, lambda n: EVENT * 10 * n, READ),
    "SSE: small events in single bytes": fed(SseDecoder, lambda n: EVENT * n, 1),
    "SSE: one event in pieces": fed(SseDecoder, lambda n: b"data: " + b"x" * 1024 * n + b"\n\n", 1024),
    "SSE: one event of many lines": fed(SseDecoder, lambda n: b"data: x\n" * 10 * n + b"\n", 64),
    "SSE: line ends": fed(SseDecoder, lambda n: b"\r\n\n\r" * 20 * n, 7),
    "SSE: carriage returns": fed(SseDecoder, lambda n: b"\r" * 50 * n, 5),
    "SSE: bare lines": fed(SseDecoder, lambda n: b'{"a":\n\n1}\n' * 5 * n, 9),
    "SSE: another kind of event first": fed(SseDecoder, lambda n: b": hi\n\n" + EVENT * 5 * n, 200),
    "chunks: many in one read": fed(Chunked, lambda n: b"1\r\nx\r\n" * n + b"0\r\n\r\n", 1 << 30),
    "chunks: many in single bytes": fed(Chunked, lambda n: b"1\r\nx\r\n" * n + b"0\r\n\r\n", 1),
    "chunks: one in pieces": fed(Chunked, lambda n: b"%x\r\n" % (n * 1024) + b"x" * 1024 * n, 1024),
    "chunks: with extensions": fed(Chunked, lambda n: b"1;why=not\r\nx\r\n" * n + b"0\r\n\r\n", 100),
    "chunks: trailers": fed(Chunked, lambda n: b"0\r\n" + b"X-A: b\r\n" * n + b"\r\n", 100),
    "chunks: digits of a size": fed(Chunked, lambda n: b"0" * n + b"1\r\nx\r\n", 1),
    "head: fields": fed(HeadReader, head, 1 << 30),
    "head: in single bytes": fed(HeadReader, head, 1),
    "head: interim ones": fed(HeadReader, lambda n: b"HTTP/1.1 100 x\r\n\r\n" * n + head(1), READ),
    "compression: one member": fed(Decompression, lambda n: gzip.compress(b"x" * 5000 * n), READ),
    "compression: members": fed(Decompression, lambda n: gzip.compress(b"x") * n, 512),
}


# --- without a decoder -------------------------------------------------------------------------------


def _half_surrogates(n: int) -> Work:
    data = b'{"a":"' + rb"\ud83d\\ \n\ude00 \ud83d\ude00" * 10 * n + b'"}'
    return lambda: _parsed(data)


def _layout_of_texts(n: int) -> Work:
    """Many short texts before a long one: copying the rest each time would be quadratic."""
    entries = [*[{"text": 1}] * n, {"text": 500 * n}]
    return lambda: arrange(entries, "", "x" * 501 * n, [], [])


def _layout_of_calls(n: int) -> Work:
    calls = [Part(FunctionCall("t", {}, "c"))] * n
    return lambda: arrange([{"call": True}] * n, "", "", calls, [])


def _log_probabilities(n: int) -> Work:
    told = {"chosenCandidates": [{"token": "a"}]}
    chunks = [{"candidates": [{"content": {"parts": [{"text": "a"}]}, "logprobsResult": told}]}] * 10 * n
    return lambda: fold_chunks(chunks)


def _exit_code(n: int) -> Work:
    output = "\n" * (n // 4)  # only the start is examined
    return lambda: [tool_response("shell", output) for _ in range(20)]


def _masked(n: int) -> Work:
    def work() -> None:
        mask = Mask("secret-of-the-upstream", b"x" * 100 * n)
        for _ in range(n):
            mask(b'{"a":"secret-of-the-upstream"}')

    return work


def _request(n: int) -> GenerateRequest:
    calls = [Part(FunctionCall("t", {}, f"c{number}"), signature="s") for number in range(n)]
    schema = {
        "type": "object",
        "properties": {f"p{i}": {"enum": [1, 2], "type": ["a", "array"]} for i in range(n)},
    }
    choice = {"anyOf": [{"type": "array"}] * n, "items": {"properties": {"a": {}}}}
    tools = (FunctionDeclaration("t", "", schema), FunctionDeclaration("u", "", choice))
    turns = tuple(Content("model", (call,)) for call in calls)
    return GenerateRequest("m", turns, tools=(Tool(tools), Tool(extra={"googleSearch": {}})))


def _mended(n: int) -> Work:
    request = _request(n)
    return lambda: (without_signatures(request), with_simple_schemas(request))


class _Remembering(dict[tuple[str, str], str]):
    """A signature store in memory."""

    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        self.update({(family, call_id): text for call_id, text in signatures.items()})

    def find(self, family: str, call_ids: Iterable[str]) -> dict[str, str]:
        return {each: self[family, each] for each in call_ids if (family, each) in self}


def _searches(n: int) -> Work:
    """Searches before calls: stored with the answer, restored and carried, and dropped by the repairs."""
    call = {"functionCall": {"id": "c", "name": "t"}}
    halves = [
        {kind: {"id": str(number)}, "thoughtSignature": "s"}
        for number in range(n)
        for kind in ("toolCall", "toolResponse")
    ]
    answer = chunk_from_json({"candidates": [{"content": {"role": "model", "parts": [*halves, call]}}]})
    strict = FunctionDeclaration("t", "", {"type": "object"}, strict=True)
    tools = (Tool((strict,) * n), Tool(extra={"googleSearch": {}}))
    able = replace(CAPABILITIES, search_beside_functions=True)

    def adapted(store: _Remembering, *contents: Content) -> GenerateRequest:
        asked = GenerateRequest("m", contents, tools=tools)
        request, adapter = adapt_request(asked, "gemini-test", able, store, counting_ids().new_id)
        adapter.feed(answer)
        return request

    def work() -> None:
        store = _Remembering()
        for part in answer.candidates[0].parts[:-1]:
            read_thought("", for_part(part))
        adapted(store)  # the call keeps its id
        adapted(store, Content("model", answer.candidates[0].parts))
        turns = [Content("model", (Part(FunctionCall("t", {}, f"c{number}")),)) for number in range(n)]
        request = adapted(store, *turns, Content("model", (Part(FunctionCall("t", {}, "c")),)))
        for drop in (without_refused_combination, without_strict_calls, without_signatures):
            drop(request)

    return work


def _signatures_in_the_vault(n: int) -> Work:
    """Signatures that are stored and found, and others that are missing."""

    def work() -> None:
        with TemporaryDirectory() as folder:
            vault = SqliteSignatureStore(Path(folder) / "vault.sqlite3").of("owner")
            vault.keep("test-1", {f"c{number}": "s" for number in range(n)})
            adapt_request(_request(2 * n), "gemini-test", CAPABILITIES, vault, counting_ids().new_id)

    return work


def _stored_chain(n: int) -> Work:
    folder = TemporaryDirectory()
    store = SqliteAnswerStore(Path(folder.name) / "answers.sqlite3", 1, 100)
    turns = min(n, LONGEST_CHAIN)
    for number in range(turns):
        answer = {"id": f"resp_{number}", "output": [{"id": f"item_{number}", "type": "message"}]}
        store.keep("owner", answer, [{"role": "user"}], f"resp_{number - 1}" if number else None)

    def work() -> None:
        with folder:
            assert len(store.chain("owner", f"resp_{turns - 1}", lambda _size: None) or ()) == turns

    return work


class Foreign(ForgetfulSignatureStore):
    def find(self, family: str, call_ids: Iterable[str]) -> dict[str, str]:
        return dict.fromkeys(call_ids, "another family")


def _foreign_signatures(n: int) -> Work:
    request = GenerateRequest("m", _request(n).contents, native=True)
    return lambda: adapt_request(request, "gemini-test", CAPABILITIES, Foreign(), counting_ids().new_id)


def _embedded(n: int) -> Work:
    one = {"content": {"parts": [{"text": "x"}] * 2}}
    caller = Caller(path={"model": "m", "method": "batchEmbedContents"})

    def work() -> None:
        asked = embedding_to_gemini({"requests": [one] * n}, caller)
        asked.body("m", asked.contents)

    return work


def _embedded_for_openai(n: int) -> Work:
    vector = {"values": [0.5] * 10}

    def work() -> None:
        asked = OPENAI_EMBEDDING.to_gemini({"model": "m", "input": ["x"] * min(n, 2048)}, Caller())
        asked.body("m", asked.contents)
        asked.answer([asked.read({"embeddings": [vector] * n}, n)], 1)

    return work


def _gaps(n: int) -> Work:
    """Marks and half marks of the bridge and of editors."""
    text = "<|cursor|><|cursor_<|fim_prefix|><|fim_suffix|>" * n

    def work() -> None:
        gap_in_template(f"{text}<|fim_middle|>")
        question("", Gap(text, f"<|cursor{'_' * n}"))

    return work


def _fences(n: int) -> Work:
    def work() -> None:
        fences = FenceFilter()
        for _ in range(n):
            fences.feed("```\n")
        fences.finish()

    return work


def _counted(n: int) -> Work:
    body = {"contents": [{"role": "user", "parts": [{"text": "x"}]}] * n}

    def work() -> None:
        asked = counted_to_gemini(body, Caller(path={"model": "m"}))
        GuardRunner(GUARDS, "request").for_token_count(asked.request)

    return work


def _resumed_responses(n: int) -> Work:
    """A chain of answers, each of which is referenced once more."""
    items = [{"type": "item_reference", "id": f"item_{number}"} for number in range(n)]
    past = [PastTurn([{"role": "user", "content": "x"}], {"output": [{"type": "message"}]})] * n

    def work() -> None:
        body = RESPONSES.resolve_references({"input": items}, lambda _id: {"type": "message"})
        RESPONSES.with_history(body, past)

    return work


def _conversation_items(n: int) -> Work:
    """Items that a client adds to a conversation, and those that a response adds."""
    said = {"role": "user", "content": [{"type": "input_text", "text": "x"}] * n}
    answer = {"output": [{"type": "message", "role": "assistant", "content": "x"}] * n}

    def work() -> None:
        RESPONSES_CONVERSATIONS.new_items({"items": [said]})
        body = RESPONSES_CONVERSATIONS.identified({"input": [said] * 2 + [{"role": "user"}] * n})
        RESPONSES_CONVERSATIONS.added(body, answer)

    return work


def _compaction(n: int) -> Work:
    """A conversation of many items, and its summary in many parts."""
    body = {"model": "m", "input": [{"role": "user", "content": "x"}] * n}
    said = {"type": "message", "content": [{"type": "output_text", "text": "x"}] * n}
    answer = {"id": "", "created_at": 0, "status": "completed", "usage": {}, "output": [said] * 2}

    def work() -> None:
        COMPACTION.request(body)
        COMPACTION.body(body, answer)

    return work


def _executed_code_outputs(n: int) -> Work:
    item = {"code": "1", "outputs": [{"type": "logs", "logs": "x"}] * n}
    return lambda: code_parts(item, "input[0]")


def _resumed_interactions(n: int) -> Work:
    past = [PastTurn([{"type": "user_input"}], {"steps": [{"type": "model_output"}]})] * n
    return lambda: INTERACTIONS.with_history({"input": [{"type": "text", "text": "x"}] * n}, past)


def _fields_of_a_chunk(n: int) -> Work:
    told = {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}}]}
    chunk = chunk_from_json({**told, **{f"x{number}": 1 for number in range(n)}})
    return lambda: chunk.extra


def _counts_of_tokens(n: int) -> Work:
    usage = Usage({f"x{number}TokenCount": 1 for number in range(n)})
    return lambda: usage + usage


def _settings_of_a_generation(n: int) -> Work:
    """A native client may send any generation setting."""
    settings = {f"x{number}": 1 for number in range(n)} | {"thinkingConfig": {"thinkingBudget": 1}}
    request = GenerateRequest("m", (), generation=settings)
    return lambda: (without_sampling(request), without_thinking_amount(request))


def _patches(n: int) -> Work:
    patch = "*** Begin Patch\n+*** Update File: a\n@@\n+*** End of File\n+*** End Patch\nthen\n"
    return lambda: repair_patches(patch * n)


def _digested_request(n: int) -> Work:
    """A client switches the request cache on, and sends many parts, settings and labels."""
    contents = (Content("user", (Part("word"),) * n),) * 3
    request = GenerateRequest("m", contents, generation={f"x{number}": number for number in range(n)})
    return lambda: (is_repeatable(request), request_digest("upstream", request))


def _servers_of_a_response(n: int) -> Work:
    names = [f"t{number}" for number in range(n)]
    headers = {f"X-Key-{name}": "secret" for name in names}
    approval = {"always": {"tool_names": names}, "never": {"tool_names": names}}
    tool = {"type": "mcp", "headers": headers, "allowed_tools": names, "require_approval": approval}
    called = {"server_label": "s0", "name": "t"}
    error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "x"}] * n}
    items = [
        {
            "type": "mcp_list_tools",
            "id": "l",
            "server_label": "s0",
            "tools": [{"name": name} for name in names],
        },
        {"type": "mcp_call", "id": "e", **called, "arguments": "{}", "error": error},
        *({"type": "mcp_call", "id": name, **called, "arguments": "{}", "output": "x"} for name in names),
        *({"type": "mcp_approval_request", "id": f"mcpr_a{name}", **called} for name in names),
        *(
            {"type": "mcp_approval_response", "approval_request_id": f"mcpr_a{name}", "approve": True}
            for name in names
        ),
    ]
    tools = [{**tool, "server_label": "s0"}, *({"type": "mcp", "server_label": name} for name in names)]
    body = {"model": "m", "input": items, "tools": tools}
    return lambda: _hosted(responses_to_gemini(body, Caller()))


def _servers_of_a_message(n: int) -> Work:
    names = [f"t{number}" for number in range(n)]
    servers = [{"type": "url", "name": name, "url": "https://mcp.example"} for name in names]
    configs = {name: {"enabled": False} for name in names}
    tools = [{"type": "mcp_toolset", "mcp_server_name": name} for name in names[1:]]
    tools.append({"type": "mcp_toolset", "mcp_server_name": "t0", "configs": configs, "tools": [{}] * n})
    blocks = [
        {"type": "mcp_tool_use", "id": "c", "server_name": "t0", "name": "t", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "x"}] * n},
    ]
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": blocks}]
    body = {"model": "m", "max_tokens": 1, "messages": messages, "mcp_servers": servers, "tools": tools}
    return lambda: _hosted(messages_to_gemini(body, Caller()))


def _hosted(asked: ConvertedRequest) -> None:
    assert asked.hosted is not None
    with_function_calls(asked.request.contents)
    for server in asked.hosted.servers:
        secrets_in_headers(server.headers)


def _tools_that_stay(n: int) -> Work:
    edit = {"type": "clear_tool_uses_20250919", "exclude_tools": [f"tool{number}" for number in range(n)]}
    body = {"context_management": {"edits": [edit]}}
    return lambda: context_wishes(body)


def _messages_to_summarise(n: int) -> Work:
    said = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}] * n
    called = {"role": "assistant", "content": [{"type": "text", "text": "Yes"}] * n}
    body = {"compaction": {"type": "summarize"}, "messages": [*said, called]}
    return lambda: compaction_on_demand(body)


def _compaction_items(n: int) -> Work:
    """Each keeps the messages before it."""
    opened = OpenedSummary("The summary.", StandsFor.ALL_BUT_MESSAGES)

    def work() -> None:
        contents: list[Content] = []
        kept = 0
        for _ in range(n):
            contents.append(Content(USER, (Part("Hi"),)))
            kept = compact(contents, kept, opened)

    return work


PIECES: dict[str, Case] = DECODERS | {
    "JSON: halves of pairs": _half_surrogates,
    "layout: texts": _layout_of_texts,
    "layout: calls": _layout_of_calls,
    "fold: log probabilities": _log_probabilities,
    "mask: events that quote the key": _masked,
    "repairs: calls and schemas": _mended,
    "searches beside functions": _searches,
    "vault: signatures": _signatures_in_the_vault,
    "vault: signatures of another family": _foreign_signatures,
    "embeddings": _embedded,
    "embeddings for OpenAI's clients": _embedded_for_openai,
    "gaps in a text": _gaps,
    "fences around an answer": _fences,
    "counting of tokens": _counted,
    "responses: a chain and references": _resumed_responses,
    "responses: items of a conversation": _conversation_items,
    "responses: a compaction": _compaction,
    "responses: outputs of executed code": _executed_code_outputs,
    "interactions: a chain": _resumed_interactions,
    "responses: servers of tools": _servers_of_a_response,
    "messages: servers of tools": _servers_of_a_message,
    "fields of a chunk": _fields_of_a_chunk,
    "counts of tokens": _counts_of_tokens,
    "digest of a request": _digested_request,
    "settings of a generation": _settings_of_a_generation,
    "names of tools that stay": _tools_that_stay,
    "messages to summarise": _messages_to_summarise,
    "compaction items": _compaction_items,
    "blanks in a word": lambda n: lambda: _split_command(["a" * 10 * n]),
    "store: a chain of answers": _stored_chain,
    "patches": _patches,
    "an exit code behind empty lines": _exit_code,
    "words of a command": lambda n: lambda: _split_command("a b " * n),
    "a long word": lambda n: lambda: _split_command("a " + "b" * 10 * n),
}
