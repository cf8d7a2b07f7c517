"""How a request is adapted to a model, and how the model's chunks are adapted for the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from gemini_rules import LEGAL_NAME, broken_request_rules, calls, responses
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.gemini.model_adapter import GENERATED_ID_PREFIX, AnswerAdapter, adapt_request
from bridge.gemini.model_capabilities import ModelCapabilities
from bridge.gemini.signatures import DUMMY, seal
from bridge.gemini.types import (
    MODEL,
    USER,
    Candidate,
    Chunk,
    Content,
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    InlineData,
    Part,
    Thinking,
    Tool,
    Usage,
)

FAMILY = "new"
OLD = ModelCapabilities(family=FAMILY)
NEW = ModelCapabilities(
    family=FAMILY, needs_signatures=True, tool_media=True, thinking_levels=("low", "high")
)
PICTURE = InlineData("image/png", "AAAA")
ASK = Content(USER, (Part("Please."),))


class DictVault:
    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        self.kept |= {(family, call_id): signature for call_id, signature in signatures.items()}

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        wanted = [call_id for call_id in call_ids if (family, call_id) in self.kept]
        return {call_id: self.kept[family, call_id] for call_id in wanted}


def fitted(
    *contents: Content, capabilities: ModelCapabilities = NEW, vault: DictVault | None = None, **fields: Any
) -> tuple[GenerateRequest, AnswerAdapter]:
    numbers = count(1)
    request = GenerateRequest("client-name", contents or (ASK,), **fields)
    return adapt_request(
        request, "gemini-name", capabilities, vault or DictVault(), lambda prefix: f"{prefix}{next(numbers)}"
    )


def call(name: str = "f", call_id: str | None = None, signature: str | None = None) -> Part:
    return Part(FunctionCall(name, {}, call_id), signature=signature)


def result(name: str = "f", call_id: str | None = None, *media: InlineData | FileData) -> Part:
    return Part(FunctionResponse(name, {"result": "fine"}, call_id, media))


def model(*parts: Part) -> Content:
    return Content(MODEL, parts)


def user(*parts: Part) -> Content:
    return Content(USER, parts)


def chunk(*parts: Part) -> Chunk:
    return Chunk((Candidate(model(*parts)),))


def functions(*names: str) -> dict[str, Any]:
    return {"tools": (Tool(tuple(map(FunctionDeclaration, names))),)}


# --- to Gemini ---------------------------------------------------------------------------------------


def test_the_request_goes_to_the_models_own_name() -> None:
    assert fitted()[0].model == "gemini-name"


def test_only_geminis_own_call_ids_are_sent_to_gemini() -> None:
    request, _ = fitted(
        ASK,
        model(
            call(call_id=f"{GENERATED_ID_PREFIX}1"),
            call(call_id="own"),
            call(call_id=GENERATED_ID_PREFIX),
            call(call_id=""),
        ),
        user(
            result(call_id=f"{GENERATED_ID_PREFIX}1"),
            result(call_id="own"),
            result(call_id=GENERATED_ID_PREFIX),
            result(),
        ),
    )
    assert [each.id for each in calls(request.contents[1])] == [None, "own", None, None]
    assert [each.id for each in responses(request.contents[2])] == [None, "own", None, None]


def test_results_are_matched_by_generated_ids_before_those_are_dropped() -> None:
    first, second = f"{GENERATED_ID_PREFIX}1", f"{GENERATED_ID_PREFIX}2"
    late = Part(FunctionResponse("f", {"of": "second"}, second))
    request, _ = fitted(
        ASK, model(call(call_id=first), call(call_id=second)), user(late, result(call_id=first))
    )
    assert [each.response for each in responses(request.contents[2])] == [
        {"result": "fine"},
        {"of": "second"},
    ]


def test_an_illegal_tool_name_is_renamed_the_same_everywhere() -> None:
    request, _ = fitted(
        ASK,
        model(call("a tool", "1")),
        user(result("a tool", "1")),
        **functions("a tool", "fine"),
        tool_config={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a tool", "fine"]}},
    )
    legal = request.tools[0].functions[0].name
    assert LEGAL_NAME.fullmatch(legal)
    assert [each.name for each in (*calls(request.contents[1]), *responses(request.contents[2]))] == [
        legal,
        legal,
    ]
    assert request.tool_config == {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [legal, "fine"]}
    }


def test_renaming_keeps_the_other_declaration_fields() -> None:
    declared = FunctionDeclaration("a tool", "Does it.", {"type": "object"}, {"behavior": "X"})
    (tool,) = fitted(tools=(Tool((declared,), {"y": 1}),))[0].tools
    assert tool.extra == {"y": 1}
    (function,) = tool.functions
    assert (function.description, function.schema, function.extra) == (
        "Does it.",
        {"type": "object"},
        {"behavior": "X"},
    )


def test_media_stays_inside_the_response_where_the_model_takes_it() -> None:
    request, _ = fitted(ASK, model(call()), user(result("f", None, PICTURE)), capabilities=NEW)
    assert request.contents[-1] == user(result("f", None, PICTURE))


def test_media_follows_all_responses_where_the_model_does_not_take_it_inside() -> None:
    file = FileData("gs://b/o")
    request, _ = fitted(
        ASK,
        model(call("f"), call("g")),
        user(result("f", None, PICTURE, file), result("g"), Part("And?")),
        capabilities=OLD,
    )
    assert request.contents[-1] == user(result("f"), result("g"), Part(PICTURE), Part(file), Part("And?"))


def test_past_calls_are_declared_and_forbidden_where_no_tool_is() -> None:
    request, _ = fitted(
        ASK, model(call("a tool", "1"), call("g", "2"), call("g", "3")), user(result("a tool", "1"))
    )
    (tool,) = request.tools
    assert [function.name for function in tool.functions] == [
        each.name for each in calls(request.contents[1])
    ][:2]
    assert request.tool_config == {"functionCallingConfig": {"mode": "NONE"}}


def test_past_calls_change_nothing_where_tools_are_declared() -> None:
    request, _ = fitted(ASK, model(call("past")), user(result("past")), **functions("now"))
    assert [function.name for tool in request.tools for function in tool.functions] == ["now"]
    assert request.tool_config == {}


def test_a_conversation_without_calls_gets_no_tools() -> None:
    request, _ = fitted(ASK, model(Part("Hi.")), ASK)
    assert request.tools == ()
    assert request.tool_config == {}


def test_search_is_dropped_beside_functions_with_a_note() -> None:
    search = Tool(extra={"googleSearch": {}})
    request, adapter = fitted(tools=(*functions("f")["tools"], search))
    assert [tool.extra for tool in request.tools] == [{}]
    assert adapter.notes == ("tools.search_beside_functions",)


def test_search_is_dropped_beside_past_calls_with_a_note() -> None:
    search = Tool(extra={"googleSearch": {}})
    request, adapter = fitted(ASK, model(call("f")), user(result("f")), tools=(search,))
    assert [function.name for tool in request.tools for function in tool.functions] == ["f"]
    assert broken_request_rules(request, prefill=False) == []
    assert adapter.notes == ("signatures.dummy", "tools.search_beside_functions")


def test_search_without_functions_is_kept() -> None:
    search = Tool(extra={"googleSearch": {}})
    request, adapter = fitted(tools=(search,))
    assert request.tools == (search,)
    assert adapter.notes == ()


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
AS_JSON = {"temperature": 1, "responseMimeType": "application/json", "responseJsonSchema": SCHEMA}


def test_a_json_answer_beside_tools_is_requested_in_the_prompt_if_the_model_refuses_both() -> None:
    system = Content(None, (Part("Be brief."),))
    request, adapter = fitted(capabilities=OLD, **functions("f"), system=system, generation=AS_JSON)
    assert request.generation == {"temperature": 1}
    assert request.system is not None
    brief, wish = (str(part.data) for part in request.system.parts)
    assert brief == "Be brief."
    assert "JSON" in wish
    assert wish.endswith('{"type":"object","properties":{"n":{"type":"integer"}}}')
    assert adapter.notes == ("generation.json_beside_tools",)


def test_a_json_answer_beside_past_calls_is_requested_in_the_prompt() -> None:
    history = (ASK, model(call("f")), user(result("f")))
    request, _ = fitted(*history, capabilities=OLD, generation={"responseMimeType": "application/json"})
    assert "responseMimeType" not in request.generation
    assert request.system is not None


@pytest.mark.parametrize(
    ("capabilities", "tools"),
    [(OLD, {}), (replace(OLD, json_beside_tools=True), {"tools": (Tool((FunctionDeclaration("f"),)),)})],
)
def test_a_json_answer_is_requested_natively_where_the_model_allows_it(
    capabilities: ModelCapabilities, tools: dict[str, Any]
) -> None:
    request, adapter = fitted(capabilities=capabilities, **tools, generation=AS_JSON)
    assert request.generation == AS_JSON
    assert request.system is None
    assert adapter.notes == ()


def test_requested_thinking_becomes_the_models_thinking_config() -> None:
    request, _ = fitted(thinking=Thinking(effort="high"), generation={"temperature": 1})
    assert request.thinking is None
    assert request.generation == {
        "temperature": 1,
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
    }


def test_a_model_that_does_not_think_gets_no_thinking_config() -> None:
    request, _ = fitted(capabilities=OLD, thinking=Thinking(effort="high"), generation={"temperature": 1})
    assert request.thinking is None
    assert request.generation == {"temperature": 1}


def test_an_unsigned_call_gets_the_dummy_only_where_the_model_needs_it() -> None:
    history = (ASK, model(call(call_id="1"), call(call_id="2")), user(result(call_id="1")))
    new, old = (fitted(*history, capabilities=capabilities)[0] for capabilities in (NEW, OLD))
    assert [part.signature for part in new.contents[1].parts] == [DUMMY, None]
    assert [part.signature for part in old.contents[1].parts] == [None, None]


def test_each_dummy_is_noted_and_signatures_are_not() -> None:
    lost, kept = model(call(call_id="1")), model(call("f", "3", seal("c2ln", FAMILY)))
    answers = [user(result(call_id=each)) for each in ("1", "2", "3")]
    history = (ASK, lost, answers[0], model(call(call_id="2")), answers[1], kept, answers[2])
    assert fitted(*history)[1].notes == ("signatures.dummy",) * 2
    assert fitted(*history, capabilities=OLD)[1].notes == ()


def test_a_call_invented_for_a_stray_result_gets_the_dummy_too() -> None:
    request, _ = fitted(ASK, model(Part("Hm.")), user(result("f", "1")))
    assert [part.signature for part in request.contents[1].parts] == [None, DUMMY]


@pytest.mark.parametrize("blank", [Part(""), Part(" \n"), Part("", thought=True), Part(None)])
@pytest.mark.parametrize("others", [(), (Part("Hi."),)])
def test_a_blank_part_with_a_foreign_signature_is_dropped(blank: Part, others: tuple[Part, ...]) -> None:
    """Gemini ends many answers with an empty signed text; a client may then switch to another family."""
    signed = Part(blank.data, blank.thought, seal("x", "another family"))
    request, _ = fitted(ASK, model(*others, signed), ASK)
    assert broken_request_rules(request, prefill=False) == []


def test_repairs_are_noted() -> None:
    _, adapter = fitted(ASK, model(call()), ASK)
    assert adapter.notes == ("history.call_without_result", "signatures.dummy")


# --- from Gemini -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plain",
    [
        chunk(Part("a"), Part("b", thought=True)),
        chunk(Part(PICTURE)),
        Chunk((Candidate(None, "STOP"),), Usage({"totalTokenCount": 1})),
        Chunk(),
    ],
)
def test_a_chunk_without_calls_and_signatures_is_the_same_object(plain: Chunk) -> None:
    assert fitted()[1].feed(plain) is plain


def test_the_client_gets_its_own_tool_names_back() -> None:
    request, adapter = fitted(**functions("a tool", "fine"))
    legal = request.tools[0].functions[0].name
    fed = adapter.feed(chunk(call(legal, "1"), call("fine", "2"), call("never_declared", "3")))
    assert [each.name for each in fed.candidates[0].content.calls()] == ["a tool", "fine", "never_declared"]


def test_a_call_without_an_id_gets_a_generated_one() -> None:
    fed = fitted()[1].feed(chunk(call(), call(call_id="own"), call(call_id="")))
    ids = [each.id for each in fed.candidates[0].content.calls()]
    assert ids == [f"{GENERATED_ID_PREFIX}1", "own", f"{GENERATED_ID_PREFIX}2"]


def test_no_two_calls_of_an_answer_have_one_id() -> None:
    adapter = fitted()[1]
    both = Chunk((Candidate(model(call(call_id="1"))), Candidate(model(call(call_id="1")), index=1)))
    fed = [adapter.feed(both), adapter.feed(chunk(call(call_id="1")))]
    ids = [each.id for one in fed for candidate in one.candidates for each in candidate.content.calls()]
    assert ids == ["1", f"{GENERATED_ID_PREFIX}1", f"{GENERATED_ID_PREFIX}2"]


def test_no_call_reuses_an_id_of_the_history() -> None:
    _, adapter = fitted(ASK, model(call(call_id="1")), user(result(call_id="1")))
    fed = adapter.feed(chunk(call(call_id="1"), call(call_id="2")))
    assert [each.id for each in fed.candidates[0].content.calls()] == [f"{GENERATED_ID_PREFIX}1", "2"]


def test_signatures_are_sealed_for_the_client_and_all_else_is_unchanged() -> None:
    parts = (Part("a", thought=True, signature="1"), Part("", signature="2"), Part(PICTURE, extra={"x": 1}))
    given_ = Chunk(
        (Candidate(model(*parts), "STOP", 0, {"y": 2}), Candidate(None, index=1)),
        Usage({"totalTokenCount": 1}),
        None,
        {"responseId": "r"},
    )
    fed = fitted()[1].feed(given_)
    assert [part.signature for part in fed.candidates[0].parts] == [
        seal("1", FAMILY),
        seal("2", FAMILY),
        None,
    ]
    assert [(part.data, part.thought, part.extra) for part in fed.candidates[0].parts] == [
        (part.data, part.thought, part.extra) for part in parts
    ]
    assert (fed.usage, fed.extra, fed.candidates[1]) == (given_.usage, given_.extra, given_.candidates[1])
    assert fed.candidates[0].finish_reason == "STOP"


def test_signatures_of_calls_are_kept_by_the_id_that_the_client_sees() -> None:
    vault = DictVault()
    _, adapter = fitted(vault=vault)
    adapter.feed(chunk(Part("a", signature="0"), call(call_id="1", signature="one"), call(call_id="2")))
    adapter.feed(chunk(call(signature="two")))
    assert vault.kept == {(FAMILY, "1"): "one", (FAMILY, f"{GENERATED_ID_PREFIX}1"): "two"}


# --- round trips -------------------------------------------------------------------------------------

SPOKEN = st.sampled_from(
    [
        Part("a"),
        Part("a", thought=True),
        Part("a", thought=True, signature="t"),
        Part("", signature="e"),
        Part(PICTURE),
    ]
)
CALLED = st.builds(
    call,
    st.sampled_from(["f", "legal_name"]),
    st.sampled_from([None, "", "1", "2"]),
    st.sampled_from([None, "s"]),
)


@settings(deadline=None)
@given(answers=st.lists(st.lists(SPOKEN | CALLED, min_size=1, max_size=4), min_size=1, max_size=3))
def test_gemini_gets_its_own_parts_back_from_a_complete_history(
    answers: list[list[Part]],
) -> None:
    contents = [ASK]
    for answer in answers:
        _, adapter = fitted(*contents, capabilities=OLD)
        (candidate,) = adapter.feed(chunk(*answer)).candidates
        results = [result(each.name, each.id) for each in candidate.content.calls()]
        contents += [candidate.content, user(*results, Part("Go on."))]
    request, _ = fitted(*contents, capabilities=OLD)
    assert broken_request_rules(request, prefill=False) == []
    back = [content.parts for content in request.contents if content.role == MODEL]
    assert [without_ids(parts) for parts in back] == [without_ids(answer) for answer in answers]
    ids = [each.id for content in request.contents for each in calls(content) if each.id]
    assert len(set(ids)) == len(ids)
    assert not any(each.startswith(GENERATED_ID_PREFIX) for each in ids)


def without_ids(parts: Iterable[Part]) -> list[Part]:
    return [
        call(part.data.name, None, part.signature) if isinstance(part.data, FunctionCall) else part
        for part in parts
    ]


@settings(deadline=None)
@given(answer=st.lists(SPOKEN | CALLED, min_size=1, max_size=4))
def test_dropped_signatures_of_first_calls_come_from_the_signature_store(answer: list[Part]) -> None:
    vault = DictVault()
    _, adapter = fitted(vault=vault)
    (candidate,) = adapter.feed(chunk(*answer)).candidates
    stripped = model(*(Part(part.data, part.thought) for part in candidate.parts))
    request, _ = fitted(ASK, stripped, ASK, vault=vault)
    sent = [part for content in request.contents for part in content.parts]
    first = [part for part in sent if isinstance(part.data, FunctionCall)][:1]
    came = [part for part in answer if isinstance(part.data, FunctionCall)][:1]
    assert [part.signature for part in first] == [part.signature or DUMMY for part in came]
    assert all(part.signature is None for part in sent if part not in first)


# --- native clients ----------------------------------------------------------------------------------


def native(*contents: Content, **fields: Any) -> tuple[GenerateRequest, AnswerAdapter]:
    return fitted(*contents, native=True, **fields)


def called(signature: str | None, call_id: str | None = None) -> Content:
    return Content(MODEL, (Part(FunctionCall("f", {}, call_id), signature=signature),))


ANSWERED = Content(USER, (Part(FunctionResponse("f", {"output": 1})),))
FUNCTIONS = Tool((FunctionDeclaration("f"),))
SEARCH = Tool(extra={"googleSearch": {}})


def chunk_with(*parts: Part) -> Chunk:
    return Chunk((Candidate(Content(MODEL, parts)),))


def test_a_native_clients_thinking_config_is_kept():
    for generation in ({}, {"thinkingConfig": {"thinkingLevel": "LOW"}}):
        request, _ = native(generation=generation, tools=(FUNCTIONS,))
        assert request.generation == generation


def test_a_native_clients_tool_combination_is_kept():
    request, adapter = native(tools=(SEARCH, FUNCTIONS))
    assert request.tools == (SEARCH, FUNCTIONS)
    assert adapter.notes == ()


def test_past_calls_are_not_declared_beside_a_native_clients_other_tools():
    request, _ = native(ASK, called("c2ln"), ANSWERED, tools=(SEARCH,))
    assert request.tools == (SEARCH,)


def test_a_native_client_gets_unchanged_calls_and_signatures():
    _, adapter = native(tools=(FUNCTIONS,))
    parts = (
        Part(FunctionCall("f", {}), signature="c2ln"),
        Part(FunctionCall("f", {}, "c1")),
        Part(FunctionCall("f", {}, "c1")),
        Part("So.", signature="YQ=="),
    )
    assert adapter.feed(chunk_with(*parts)) == chunk_with(*parts)


def test_a_native_client_gets_the_names_it_gave_its_tools():
    request, adapter = native(tools=(Tool((FunctionDeclaration("a b"),)),))
    legal = request.tools[0].functions[0].name
    assert legal != "a b"
    assert adapter.feed(chunk_with(Part(FunctionCall(legal)))) == chunk_with(Part(FunctionCall("a b")))


def test_a_native_clients_signature_is_unchanged_and_a_missing_one_gets_the_dummy():
    for echoed, sent in {"c2ln": "c2ln", None: DUMMY, "skip_thought_signature_validator": DUMMY}.items():
        request, adapter = native(ASK, called(echoed), ANSWERED, tools=(FUNCTIONS,))
        assert request.contents[1].parts[0].signature == sent
        assert adapter.notes == (() if echoed else ("signatures.dummy",)), "noted only where it is ours"


def test_a_native_clients_dropped_signatures_come_from_the_signature_store():
    vault = DictVault()
    _, adapter = native(tools=(FUNCTIONS,), vault=vault)
    adapter.feed(chunk_with(Part(FunctionCall("f", {}, "c1"), signature="c2ln")))
    request, _ = native(ASK, called(None, "c1"), ANSWERED, tools=(FUNCTIONS,), vault=vault)
    assert request.contents[1].parts[0].signature == "c2ln"


@pytest.mark.parametrize("echoed", ["ab+/cd==", "ab-_cd==", "ab-_cd"])
def test_a_signature_known_to_be_of_another_family_is_dropped(echoed):
    vault = DictVault()
    for family in ("other", FAMILY):
        _, adapter = native(tools=(FUNCTIONS,), vault=vault, capabilities=ModelCapabilities(family=family))
        adapter.feed(chunk_with(Part("Said.", signature="ab+/cd==" if family == "other" else "own=")))
    said = Content(
        MODEL, (Part("Said.", signature=echoed), Part("Own.", signature="own="), Part("?", signature="x"))
    )
    request, _ = native(ASK, said, ASK, vault=vault)
    assert [part.signature for part in request.contents[1].parts] == [None, "own=", "x"]
