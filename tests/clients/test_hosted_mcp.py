"""MCP servers that requests name: both official SDKs, real gunicorn, and real servers of both eras."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import orjson
import pytest
import requests
from anthropic import Anthropic
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge
from official_mcp import official_mcp_server
from openai import OpenAI
from scripted_gemini import Asked, ScriptedGemini, call_chunk, sse, text_chunk

MODEL = "gemini-3.1-pro-preview"
TOKEN = "sesame-open-sesame"
BETA = "mcp-client-2025-11-20"
WEATHER = {
    "type": "function",
    "name": "weather",
    "strict": False,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


SERVERS = """
[[mcp_server]]
name = "library"
url = "{url}"
headers = {{ Authorization = "Bearer env:LIBRARY_TOKEN" }}
read_only = ["search"]
hosted = true

[[mcp_server]]
name = "private"
url = "{url}"
unattended = ["book"]

[[agent]]
name = "librarian"
model = "gemini-3.1-pro-preview"
instruction = "Find books."
tools = ["library__search", "private__book"]
"""


@pytest.fixture(scope="module", params=["newer era", "older era"])
def library(request: pytest.FixtureRequest) -> Iterator[str]:
    with official_mcp_server(*(["--older"] if request.param == "older era" else [])) as url:
        yield url


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


@pytest.fixture
def gemini(upstream: ScriptedGemini) -> ScriptedGemini:
    upstream.forget()
    return upstream


@pytest.fixture(scope="module")
def hosting(
    library: str, upstream: ScriptedGemini, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bridge]:
    config = tmp_path_factory.mktemp("config") / "config"
    shutil.copytree(ROOT / "config", config, ignore=shutil.ignore_patterns("local.toml"))
    (config / "agents").mkdir(exist_ok=True)
    (config / "agents" / "library.toml").write_text(SERVERS.format(url=library))
    with gunicorn_bridge(
        GEMINI_API_KEY="upstream-key-of-the-tests",
        GOOGLE_GEMINI_BASE_URL=upstream.address,
        BRIDGE_CONFIG_DIR=str(config),
        BRIDGE_MCP__ALLOWED_HOSTS=library.split("/")[2],
        BRIDGE_SERVER__HEARTBEAT="0.3",
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        LIBRARY_TOKEN="token-of-the-administrator",
    ) as running:
        yield running


@pytest.fixture
def client(hosting: Bridge) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{hosting.address}/v1", api_key="client-key", max_retries=0) as sdk:
        yield sdk


@pytest.fixture
def claude(hosting: Bridge) -> Iterator[Anthropic]:
    with Anthropic(base_url=hosting.address, api_key="client-key", max_retries=0) as sdk:
        yield sdk


def results(asked: Asked) -> list[Any]:
    """The function responses that the model has got, in order."""
    parts = [part for content in asked.body["contents"] for part in content["parts"]]
    return [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]


def calls_first(*calls: tuple[str, dict[str, Any]]) -> Any:
    """A model that makes these calls, and then tells what it got."""

    def answer(asked: Asked) -> list[bytes]:
        found = results(asked)
        if not found:
            last = len(calls) - 1
            chunks = [call_chunk(name, args, f"c{at}") for at, (name, args) in enumerate(calls)]
            chunks[0]["candidates"][0]["content"]["parts"][0]["thoughtSignature"] = "c2ln"
            chunks[last]["candidates"][0]["finishReason"] = "STOP"
            return sse(*chunks)
        told = "; ".join(str(next(iter(each.values()))) for each in found)
        return sse(text_chunk(f"I found: {told}", "STOP"))

    return answer


def server(library: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "mcp",
        "server_label": "books",
        "server_url": library,
        "require_approval": "never",
        **fields,
    }


def declared(asked: Asked) -> list[str]:
    return [each["name"] for tool in asked.body["tools"] for each in tool.get("functionDeclarations", ())]


# --- Responses ----------------------------------------------------------------------------------------


def test_a_response_streams_the_list_the_call_and_the_answer(
    client: OpenAI, gemini: ScriptedGemini, library: str
) -> None:
    gemini.will_answer(calls_first(("books__search", {"query": "Emma"})))
    events = list(
        client.responses.create(model=MODEL, input="Find it.", tools=[server(library)], stream=True)
    )
    assert [event.type for event in events if ".mcp_" in event.type or "item" in event.type] == [
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.output_item.done",
    ]
    assert events[-1].type == "response.completed"
    listed, call, message = events[-1].response.output
    assert listed.server_label == "books"
    search = next(tool for tool in listed.tools if tool.name == "search")
    assert search.description == "Search the library."
    assert search.input_schema["required"] == ["query"]
    assert (call.name, call.server_label, call.status) == ("search", "books", "completed")
    assert orjson.loads(call.arguments) == {"query": "Emma"}
    assert call.output == "3 results for Emma"
    assert call.error is None
    assert message.content[0].text == "I found: 3 results for Emma"
    assert "books__search" in declared(gemini.asked[0])


def test_a_whole_response_has_the_same_items(client: OpenAI, gemini: ScriptedGemini, library: str) -> None:
    gemini.will_answer(calls_first(("books__book", {"title": "Emma"}), ("books__fail", {})))
    response = client.responses.create(model=MODEL, input="Find it.", tools=[server(library)])
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "mcp_call", "message"]
    assert orjson.loads(response.output[1].output) == {"title": "Emma", "pages": 4}
    failed = response.output[2]
    assert (failed.status, failed.output) == ("failed", None)
    assert failed.error.type == "mcp_tool_execution_error"


def test_the_models_signature_goes_back_with_its_call(
    client: OpenAI, gemini: ScriptedGemini, library: str
) -> None:
    gemini.will_answer(calls_first(("books__search", {"query": "Emma"})))
    client.responses.create(model=MODEL, input="Find it.", tools=[server(library)])
    (part,) = gemini.asked[1].body["contents"][1]["parts"]
    assert part["thoughtSignature"] == "c2ln"


def test_only_the_allowed_tools_are_offered(client: OpenAI, gemini: ScriptedGemini, library: str) -> None:
    tool = server(library, allowed_tools=["search", "book"])
    response = client.responses.create(model=MODEL, input="Hello", tools=[tool])
    assert [tool.name for tool in response.output[0].tools] == ["search", "book"]
    assert declared(gemini.asked[0]) == ["books__search", "books__book"]


def test_a_list_that_the_conversation_holds_is_not_asked_for_again(
    client: OpenAI, gemini: ScriptedGemini, library: str
) -> None:
    first = client.responses.create(model=MODEL, input="Hello", tools=[server(library)])
    gemini.will_answer(calls_first(("books__search", {"query": "Emma"})))
    second = client.responses.create(
        model=MODEL, input="Find it.", tools=[server(library)], previous_response_id=first.id
    )
    assert [item.type for item in second.output] == ["mcp_call", "message"]


def test_tools_of_the_client_and_of_a_server_in_one_turn(
    client: OpenAI, gemini: ScriptedGemini, library: str
) -> None:
    gemini.will_answer(calls_first(("books__search", {"query": "Emma"}), ("weather", {"city": "Bath"})))
    tools = [server(library), WEATHER]
    first = client.responses.create(model=MODEL, input="Find it.", tools=tools)
    kinds = [item.type for item in first.output]
    assert sorted(kinds) == ["function_call", "mcp_call", "mcp_list_tools"]
    call = next(item for item in first.output if item.type == "function_call")
    assert call.name == "weather"
    assert len(gemini.asked) == 1  # the client's turn comes next
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    second = client.responses.create(model=MODEL, input=[output], tools=tools, previous_response_id=first.id)
    assert "3 results for Emma" in second.output_text
    assert "rain" in second.output_text


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("stored", [True, False])
def test_an_approval_makes_a_round_trip(
    client: OpenAI, gemini: ScriptedGemini, library: str, approve: bool, stored: bool
) -> None:
    gemini.will_answer(calls_first(("books__search", {"query": "Emma"})))
    tools = [server(library, require_approval="always")]
    question = {"role": "user", "content": "Find it."}
    first = client.responses.create(model=MODEL, input=[question], tools=tools, store=stored)
    assert [item.type for item in first.output] == ["mcp_list_tools", "mcp_approval_request"]
    assert first.status == "completed"
    request = first.output[1]
    assert (request.name, request.server_label) == ("search", "books")
    decision = {
        "type": "mcp_approval_response",
        "approval_request_id": request.id,
        "approve": approve,
        "reason": "not today",
    }
    if stored:
        ask: dict[str, Any] = {"input": [decision], "previous_response_id": first.id}
    else:
        ask = {"input": [question, *(item.to_dict() for item in first.output), decision]}
    events = list(client.responses.create(model=MODEL, tools=tools, store=stored, stream=True, **ask))
    second = events[-1].response
    (result,) = results(gemini.asked[-1])
    if approve:
        call, message = second.output
        assert (call.type, call.output) == ("mcp_call", "3 results for Emma")
        assert call.approval_request_id == request.id
        assert message.content[0].text == "I found: 3 results for Emma"
        assert result == {"output": "3 results for Emma"}
    else:
        assert [item.type for item in second.output] == ["message"]
        assert result == {"error": "The user refused this call: not today"}


def test_a_third_turn_knows_the_approved_call_once(
    client: OpenAI, gemini: ScriptedGemini, library: str
) -> None:
    gemini.will_answer(calls_first(("books__search", {"query": "Emma"})))
    tools = [server(library, require_approval="always")]
    first = client.responses.create(model=MODEL, input="Find it.", tools=tools)
    decision = {
        "type": "mcp_approval_response",
        "approval_request_id": first.output[1].id,
        "approve": True,
    }
    second = client.responses.create(
        model=MODEL, input=[decision], tools=tools, previous_response_id=first.id
    )
    third = client.responses.create(model=MODEL, input="Thanks.", tools=tools, previous_response_id=second.id)
    assert [item.type for item in third.output] == ["message"]
    assert results(gemini.asked[-1]) == [{"output": "3 results for Emma"}]


def test_filters_decide_which_tools_need_approval(
    client: OpenAI, gemini: ScriptedGemini, library: str
) -> None:
    gemini.will_answer(calls_first(("books__search", {"query": "a"}), ("books__book", {"title": "b"})))
    tool = server(library, require_approval={"never": {"tool_names": ["search"]}})
    response = client.responses.create(model=MODEL, input="Find it.", tools=[tool])
    found = {item.type: item for item in response.output}
    assert found["mcp_call"].name == "search"
    assert found["mcp_approval_request"].name == "book"


def test_no_more_calls_are_made_than_the_request_allows(
    client: OpenAI, gemini: ScriptedGemini, library: str
) -> None:
    gemini.will_answer(calls_first(*[("books__search", {"query": str(number)}) for number in range(3)]))
    response = client.responses.create(
        model=MODEL, input="Find it.", tools=[server(library)], max_tool_calls=2
    )
    calls = [item for item in response.output if item.type == "mcp_call"]
    assert [call.status for call in calls].count("completed") == 2
    assert [call.status for call in calls].count("failed") == 1


def test_a_server_of_the_administrator_is_named_by_its_name(client: OpenAI, gemini: ScriptedGemini) -> None:
    """The call has the administrator's credentials, and only what the server says of them is masked."""
    gemini.will_answer(calls_first(("library__whoami", {})))
    tool = {"type": "mcp", "server_label": "library", "require_approval": "never"}
    response = client.responses.create(model=MODEL, input="Who am I?", tools=[tool])
    assert response.output_text == "I found: authorization Bearer [key]"


@pytest.mark.parametrize(
    "named",
    [
        {"server_label": "private"},
        {"server_label": "nobody"},
        {"server_label": "x", "server_url": "https://mcp.example/mcp"},
        {"server_label": "x", "server_url": "http://127.0.0.1:1/mcp"},
        {"server_label": "x", "server_url": "http://169.254.169.254/latest"},
        {"server_label": "x", "server_url": "file:///etc/passwd"},
    ],
)
def test_a_server_that_is_not_allowed_is_a_loss(
    hosting: Bridge, gemini: ScriptedGemini, named: dict[str, str]
) -> None:
    body = {"model": MODEL, "input": "Hello", "tools": [{"type": "mcp", **named}]}
    answer = requests.post(f"{hosting.address}/v1/responses", json=body, timeout=30)
    assert answer.status_code == 200
    assert "responses.tool:mcp" in answer.headers["x-bridge-losses"]
    strict = requests.post(
        f"{hosting.address}/v1/responses", json=body, headers={"x-bridge-strict": "1"}, timeout=30
    )
    assert strict.status_code == 400
    assert "responses.tool:mcp" in strict.text


def test_a_server_that_fails_does_not_end_the_answer(
    client: OpenAI, gemini: ScriptedGemini, library: str
) -> None:
    tool = server(library.replace("/mcp", "/nothing"), server_label="broken")
    response = client.responses.create(model=MODEL, input="Hello", tools=[tool])
    listed, message = response.output
    assert "the MCP server broken" in listed.error
    assert message.content[0].text == "Hello."


def test_credentials_of_a_request_appear_nowhere(
    client: OpenAI, claude: Anthropic, gemini: ScriptedGemini, hosting: Bridge, library: str
) -> None:
    gemini.will_answer(calls_first(("books__whoami", {})))
    tool = server(library, authorization=TOKEN, headers={"X-Secret": f"more-{TOKEN}"})
    response = client.responses.create(model=MODEL, input="Who am I?", tools=[tool])
    assert response.output_text == "I found: authorization Bearer [key]"
    again = client.responses.retrieve(response.id)
    message = claude.beta.messages.create(
        **ask_claude(library, authorization_token=TOKEN, name="books"),
    )
    hosting.request(protocol="anthropic_messages")
    state = [path.read_bytes() for path in hosting.state.rglob("*") if path.is_file()]
    for text in (response.to_json(), again.to_json(), message.to_json(), hosting.lines(), *state):
        assert TOKEN not in (text if isinstance(text, str) else text.decode("latin-1"))
    assert all(TOKEN not in orjson.dumps(asked.body).decode() for asked in gemini.asked)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"server_label": None}, "tools[0].server_label"),
        ({"require_approval": "sometimes"}, "tools[0].require_approval"),
        ({"allowed_tools": [1]}, "tools[0].allowed_tools"),
        ({"allowed_tools": "all"}, "tools[0].allowed_tools"),
        ({"headers": {"Host": "x"}}, "tools[0].headers.Host"),
        ({"headers": {"X": "a\r\nB: c"}}, "tools[0].headers.X"),
        ({"authorization": "a\nb"}, "tools[0].authorization"),
    ],
)
def test_a_wrong_declaration_names_its_field(
    client: OpenAI, library: str, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="Hello", tools=[server(library, **fields)])
    assert refused.value.param == param


def test_an_approval_without_its_request_is_refused(client: OpenAI, library: str) -> None:
    decision = {"type": "mcp_approval_response", "approval_request_id": "mcpr_none", "approve": True}
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input=[decision], tools=[server(library)])
    assert refused.value.param == "input[0].approval_request_id"


# --- Messages -----------------------------------------------------------------------------------------


def ask_claude(library: str, toolset: dict[str, Any] | None = None, **named: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "max_tokens": 500,
        "betas": [BETA],
        "messages": [{"role": "user", "content": "Find it."}],
        "mcp_servers": [{"type": "url", "url": library, "name": "books", **named}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "books", **(toolset or {})}],
    }


def test_messages_streams_the_call_and_its_result(
    claude: Anthropic, gemini: ScriptedGemini, library: str
) -> None:
    gemini.will_answer(calls_first(("books__search", {"query": "Emma"}), ("books__fail", {})))
    with claude.beta.messages.stream(**ask_claude(library)) as stream:
        message = stream.get_final_message()
    assert [block.type for block in message.content] == [
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "text",
    ]
    use, result, _, failed, text = message.content
    assert (use.name, use.server_name, use.input) == ("search", "books", {"query": "Emma"})
    assert result.tool_use_id == use.id
    assert (result.content[0].text, result.is_error) == ("3 results for Emma", False)
    assert failed.is_error
    assert "3 results for Emma" in text.text
    assert message.stop_reason == "end_turn"


def test_a_whole_message_goes_back_as_history(
    claude: Anthropic, gemini: ScriptedGemini, library: str
) -> None:
    gemini.will_answer(calls_first(("books__search", {"query": "Emma"})))
    ask = ask_claude(library)
    first = claude.beta.messages.create(**ask)
    history = [
        *ask["messages"],
        {"role": "assistant", "content": [block.to_dict() for block in first.content]},
        {"role": "user", "content": "Thanks."},
    ]
    claude.beta.messages.create(**{**ask, "messages": history})
    assert results(gemini.asked[-1]) == [{"output": "3 results for Emma"}]
    calls = [part for content in gemini.asked[-1].body["contents"] for part in content["parts"]]
    assert next(part for part in calls if "functionCall" in part)["thoughtSignature"] == "c2ln"


def test_a_toolset_chooses_its_tools(claude: Anthropic, gemini: ScriptedGemini, library: str) -> None:
    off = {"default_config": {"enabled": False}, "configs": {"search": {"enabled": True}}}
    claude.beta.messages.create(**ask_claude(library, off))
    assert declared(gemini.asked[-1]) == ["books__search"]
    claude.beta.messages.create(**ask_claude(library, {"configs": {"search": {"enabled": False}}}))
    assert "books__search" not in declared(gemini.asked[-1])
    assert "books__book" in declared(gemini.asked[-1])


def test_the_older_form_has_its_tools_at_the_server(
    claude: Anthropic, gemini: ScriptedGemini, library: str
) -> None:
    ask = ask_claude(library, tool_configuration={"enabled": True, "allowed_tools": ["book"]})
    claude.beta.messages.create(**{**ask, "tools": [], "betas": ["mcp-client-2025-04-04"]})
    assert declared(gemini.asked[-1]) == ["books__book"]


def test_tools_of_the_client_and_of_a_server_in_one_message(
    claude: Anthropic, gemini: ScriptedGemini, library: str
) -> None:
    gemini.will_answer(calls_first(("books__search", {"query": "Emma"}), ("weather", {"city": "Bath"})))
    ask = ask_claude(library)
    ask["tools"].append({"name": "weather", "input_schema": WEATHER["parameters"]})
    first = claude.beta.messages.create(**ask)
    assert first.stop_reason == "tool_use"
    assert sorted(block.type for block in first.content) == ["mcp_tool_result", "mcp_tool_use", "tool_use"]
    use = next(block for block in first.content if block.type == "tool_use")
    history = [
        *ask["messages"],
        {"role": "assistant", "content": [block.to_dict() for block in first.content]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "rain"}],
        },
    ]
    second = claude.beta.messages.create(**{**ask, "messages": history})
    assert "3 results for Emma" in second.content[0].text
    assert "rain" in second.content[0].text


def test_messages_counts_a_server_that_is_not_allowed(hosting: Bridge, gemini: ScriptedGemini) -> None:
    body = ask_claude("https://mcp.example/mcp")
    del body["betas"]
    answer = requests.post(
        f"{hosting.address}/v1/messages", json=body, headers={"anthropic-version": "2023-06-01"}, timeout=30
    )
    assert answer.status_code == 200
    assert answer.headers["x-bridge-losses"] == "messages.mcp_servers,messages.tool:mcp_toolset"


def test_two_servers_of_one_name_are_refused(claude: Anthropic, library: str) -> None:
    ask = ask_claude(library)
    ask["mcp_servers"] *= 2
    with pytest.raises(anthropic.BadRequestError, match=r"mcp_servers\[1\]\.name"):
        claude.beta.messages.create(**ask)


# --- agents -------------------------------------------------------------------------------------------


def test_an_agent_has_the_tools_of_the_administrators_servers(
    client: OpenAI, claude: Anthropic, gemini: ScriptedGemini
) -> None:
    gemini.will_answer(
        calls_first(("library__search", {"query": "Emma"}), ("private__book", {"title": "Emma"}))
    )
    response = client.responses.create(model="agent/librarian", input="Find it.")
    assert declared(gemini.asked[0]) == ["library__search", "private__book"]
    calls = [item for item in response.output if item.type == "mcp_call"]
    assert [(call.server_label, call.name) for call in calls] == [("library", "search"), ("private", "book")]
    assert "3 results for Emma" in response.output_text
    chat = client.chat.completions.create(
        model="agent/librarian", messages=[{"role": "user", "content": "Find it."}]
    )
    assert "3 results for Emma" in (chat.choices[0].message.content or "")
    message = claude.messages.create(
        model="agent/librarian", max_tokens=500, messages=[{"role": "user", "content": "Find it."}]
    )
    assert [block.type for block in message.content] == ["text"]


def test_the_servers_of_a_request_are_lost_to_an_agent(
    hosting: Bridge, gemini: ScriptedGemini, library: str
) -> None:
    body = {"model": "agent/librarian", "input": "Hello", "tools": [server(library)]}
    answer = requests.post(f"{hosting.address}/v1/responses", json=body, timeout=30)
    assert "responses.tool:mcp" in answer.headers["x-bridge-losses"]
