"""Request n is a byte-exact prefix of request n + 1, in every protocol and with every client's habits.

Gemini caches prompts by their prefix, so a changed turn makes the rest of the history uncached and expensive.
The tests below show each unavoidable change and how far it reaches.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from conversations import CONVERSATIONS
from growing_clients import CLIENTS, Call, Chat, ClaudeCode, Codex, GrowingClient, SearchingTools
from prefixes import FRONT, assert_each_begins_as_the_one_before, written
from scripted_gemini import call_chunk, sse, text_chunk

from bridge.protocols import PROTOCOLS

#: A model that requires signatures and accepts images in results, and one that does neither.
MODELS = ("gemini-3.1-pro-preview", "gemini-2.5-flash-of-ours")
LARGE = "".join(f"line {number} of a long output\n" for number in range(20_000))


def thought(text: str, signature: str | None = None) -> dict[str, Any]:
    part = {"text": text, "thought": True, **({"thoughtSignature": signature} if signature else {})}
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}


def call(name: str, call_id: str | None, signature: str | None, place: str = "here") -> dict[str, Any]:
    chunk: dict[str, Any] = call_chunk(name, {"place": place}, call_id or "", signature)
    if call_id is None:
        del chunk["candidates"][0]["content"]["parts"][0]["functionCall"]["id"]
    return chunk


def end() -> dict[str, Any]:
    return {"candidates": [{"finishReason": "STOP", "index": 0}]}


def signed_text(text: str) -> dict[str, Any]:
    chunk = text_chunk(text, "STOP")
    chunk["candidates"][0]["content"]["parts"][0]["thoughtSignature"] = "c2lnbmVkIHRleHQ="
    return chunk


#: Gemini's answers, one for each request, with and without signatures and ids in every position.
ANSWERS = (
    (thought("I think."), call("run", "c1", "c2lnLTE="), end()),
    (call("run", "c2", "c2lnLTI="), call("run", "c3", None, "there"), end()),
    (text_chunk("Before it. "), call("run", "c4", "c2lnLTQ=", "the picture"), end()),
    (thought("Signed.", "c2lnLTU="), call("run", "c5", None, "large"), end()),
    (call("run", None, "c2lnLTY="), end()),
    (call("run", "c1", "c2lnLTc=", "again, under an old id"), end()),
    (signed_text("Done so far."),),
    (call("run", "c8", None), end()),
    (text_chunk("Nearly "), text_chunk("done.", "STOP")),
    (text_chunk("Done.", "STOP"),),
)


def result_of(made: Call) -> str:
    if made.args["place"] == "large":
        return LARGE
    return f"What {made.name} found in {made.args['place']}."


def converse(client: GrowingClient, gemini: Any, said: tuple[str, ...]) -> list[dict[str, Any]]:
    gemini.will_say(*(sse(*chunks) for chunks in ANSWERS))
    for text in said:
        client.user_says(text)
        while calls := client.send():
            client.tool_returns(calls, [result_of(each) for each in calls])
    return [asked.body for asked in gemini.asked]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda kind: kind.__name__)
def test_each_request_starts_with_the_bytes_of_the_previous_one(bridge, gemini, client, model):
    bodies = converse(client(bridge.address, model), gemini, ("Look.", "Now more.", "And more."))
    assert len(bodies) == len(ANSWERS)
    assert_each_begins_as_the_one_before(bodies)


def test_every_protocol_with_a_history_has_a_growing_client(bridge):
    paths = {client(bridge.address, "m")._path().partition(":")[0] for client in CLIENTS}
    for protocol in PROTOCOLS:
        if CONVERSATIONS[protocol.name].goes_on is None:
            continue
        home = protocol.paths[0].partition("<")[0]
        assert any(path.startswith(home) for path in paths), protocol.name


def test_the_prefix_check_detects_changes():
    first = {"contents": [{"role": "user", "parts": [{"text": "Hi", "thought": False}]}], "tools": [{}]}
    more = [{"role": "model", "parts": []}, {"role": "user", "parts": []}]
    turned = {"role": "user", "parts": [{"thought": False, "text": "Hi"}]}
    assert_each_begins_as_the_one_before([first, {**first, "contents": [*first["contents"], *more]}])
    for changed in (
        {**first, "contents": [turned, *more]},
        {**first, "tools": [], "contents": [*more] * 2},
        first,
    ):
        with pytest.raises(AssertionError):
            assert_each_begins_as_the_one_before([first, changed])


# --- unavoidable changes -----------------------------------------------------------------------------


def test_a_second_user_message_before_an_answer_extends_the_last_turn(bridge, gemini):
    """Gemini requires alternating turns, so the turn grows; all earlier content stays the same."""
    client = Chat(bridge.address, MODELS[0])
    client.user_says("Look.")
    client.send()
    client._messages += [{"role": "user", "content": "Wait."}]
    client.send()
    client._messages[-1:] = [{"role": "user", "content": "Wait, not there."}]  # instead of the answer
    client.send()
    _, earlier, later = (asked.body["contents"] for asked in gemini.asked)
    assert written(later[:-1]) == written(earlier[:-1])
    parts = earlier[-1]["parts"]
    assert written(later[-1]["parts"][: len(parts)]) == written(parts)
    assert len(later) == len(earlier)


def test_a_late_result_replaces_the_placeholder_result(bridge, gemini):
    """Gemini refuses a call without a result, so the bridge sends a placeholder until it arrives."""
    client = ClaudeCode(bridge.address, MODELS[0])
    client.user_says("Look.")
    gemini.will_say(sse(call("run", "c1", "c2lnLTE="), end()))
    calls = client.send()
    client.user_says("Are you there?")
    client.send()
    client.tool_returns(calls, ["found"])
    client.send()
    _, earlier, later = (asked.body for asked in gemini.asked)
    for field in FRONT:
        assert written(earlier.get(field)) == written(later.get(field))
    assert written(later["contents"][:2]) == written(earlier["contents"][:2])
    missing, found = (body["contents"][2]["parts"][0]["functionResponse"] for body in (earlier, later))
    assert "No result was recorded" in missing["response"]["error"]
    assert found["response"] == {"result": "found"}
    assert written(later["contents"][2]["parts"][1:]) == written(earlier["contents"][2]["parts"][1:])


def test_a_prefill_gets_a_nudge_only_while_it_is_the_last_turn(bridge, gemini):
    """Newer models require a user turn at the end."""
    client = Chat(bridge.address, MODELS[0])
    client.user_says("Count.")
    client._messages.append({"role": "assistant", "content": "One, "})
    client.send()
    client.user_says("Go on.")
    client.send()
    earlier, later = (asked.body["contents"] for asked in gemini.asked)
    assert earlier[-1] == {"role": "user", "parts": [{"text": "Continue."}]}
    assert written(later[:1]) == written(earlier[:1])
    assert written(later[1]["parts"][:1]) == written(earlier[1]["parts"])


def test_tools_found_by_a_search_are_declared_after_the_others(bridge, gemini):
    """Found tools must be declared; the earlier declarations and the contents stay the same."""
    client = SearchingTools(bridge.address, MODELS[0])
    client.user_says("Look.")
    searches = (call("run", f"c{number}", "c2lnLTE=") for number in count())
    gemini.will_say(*(sse(next(searches), end()) for _ in range(2)), sse(text_chunk("Done.", "STOP")))
    for found in (["web", "stop"], ["area"]):
        client.search_finds(client.send()[0], *found)
    client.send()
    bodies = [asked.body for asked in gemini.asked]
    names = [[each["name"] for each in body["tools"][0]["functionDeclarations"]] for body in bodies]
    first = names[0]
    assert names == [first, [*first, "web", "stop"], [*first, "web", "stop", "area"]]
    alike = [{**body, "tools": None} for body in bodies]
    assert_each_begins_as_the_one_before(alike)


def test_tools_found_by_codex_are_declared_after_the_others(bridge, gemini):
    client = Codex(bridge.address, MODELS[0])
    client.user_says("Look.")
    client.send()
    found = {"type": "function", "name": "add", "parameters": {"type": "object"}}
    client._items += [
        {"type": "tool_search_call", "call_id": "s1", "arguments": {"query": "add"}},
        {"type": "tool_search_output", "call_id": "s1", "tools": [found]},
    ]
    client.send()
    bodies = [asked.body for asked in gemini.asked]
    earlier, later = ([each["name"] for each in body["tools"][0]["functionDeclarations"]] for body in bodies)
    assert later == [*earlier, "add"]
    assert_each_begins_as_the_one_before([{**body, "tools": None} for body in bodies])


def test_stopping_a_loop_keeps_the_prefix(bridge, gemini):
    """The guard answers instead of Gemini; the next request contains that answer in its position."""
    client = Chat(bridge.address, MODELS[0])
    client.user_says("Look.")
    calls = (sse(call("run", f"c{number}", "c2lnLTE="), end()) for number in count())
    gemini.will_answer(lambda _asked: next(calls))
    while made := client.send():
        client.tool_returns(made, ["Error: not there"] * len(made))
    client.user_says("Then elsewhere.")
    client.send()
    bodies = [asked.body for asked in gemini.asked]
    assert "infinite loop" in str(bodies[-1]["contents"][-2])
    assert_each_begins_as_the_one_before(bodies)
