"""Compaction with the real `anthropic` package: on demand, and at a threshold."""

from __future__ import annotations

import anthropic
import pytest
from anthropic import Anthropic
from scripted_gemini import sse, text_chunk

from bridge.gemini.summary_part import END, START

MODEL = "gemini-3.1-pro-preview"
WORDS = "Two boats; a third is on its way."
SUMMARY = sse(text_chunk(WORDS, "STOP", promptTokenCount=50, candidatesTokenCount=9, totalTokenCount=59))
ON_DEMAND = ["compact-2026-09-04"]
THRESHOLD = ["compact-2026-01-12"]
COUNTED = [b'{"totalTokens": 60000}']


@pytest.fixture
def client(bridge):
    with Anthropic(base_url=bridge.address, api_key="alice", max_retries=0) as sdk:
        yield sdk


def asked_texts(gemini) -> list[str]:
    contents = gemini.asked[-1].body["contents"]
    return [part["text"] for content in contents for part in content["parts"] if "text" in part]


def talk(mark: str) -> list:
    return [
        {"role": "user", "content": f"How many boats? ({mark})"},
        {"role": "assistant", "content": "Two."},
    ]


def compact(client, messages, **more):
    return client.beta.messages.create(
        model=MODEL,
        max_tokens=1000,
        messages=messages,
        compaction={"type": "summarize"},
        betas=ON_DEMAND,
        **more,
    )


# --- on demand ---------------------------------------------------------------------------------------


def test_the_answer_is_one_signed_block(client, gemini):
    gemini.will_say(SUMMARY)
    message = compact(client, talk("one block"), system="Count boats.")
    assert message.stop_reason == "compaction"
    (block,) = message.content
    assert (block.type, block.content, block.encrypted_content) == ("compaction", WORDS, None)
    assert block.signature
    (spent,) = message.usage.iterations
    assert (spent.type, spent.input_tokens, spent.output_tokens) == ("compaction", 50, 9)
    assert (message.usage.input_tokens, message.usage.output_tokens) == (0, 0)


def test_the_block_takes_the_place_of_the_messages(client, gemini):
    gemini.will_say(SUMMARY)
    message = compact(client, talk("in place"))
    following = [{"role": "assistant", "content": message.content}, {"role": "user", "content": "And now?"}]
    client.beta.messages.create(model=MODEL, max_tokens=1000, messages=following, betas=ON_DEMAND)
    assert asked_texts(gemini) == [f"{START}\n{WORDS}\n{END}", "And now?"]
    # It is summarised again with what followed.
    gemini.will_say(sse(text_chunk("Three boats.", "STOP")))
    again = compact(client, [*following, {"role": "assistant", "content": "Three."}])
    assert again.content[0].content == "Three boats."
    assert "a third is on its way" in asked_texts(gemini)[0]


def test_the_block_is_streamed(client, gemini):
    gemini.will_say(SUMMARY)
    with client.beta.messages.stream(
        model=MODEL,
        max_tokens=1000,
        messages=talk("streamed"),
        compaction={"type": "summarize"},
        betas=ON_DEMAND,
    ) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    assert "compaction" in kinds
    assert message.stop_reason == "compaction"
    assert message.content[0].content == WORDS
    gemini.will_say(sse(text_chunk("Three.", "STOP")))
    following = [{"role": "assistant", "content": message.content}, {"role": "user", "content": "And now?"}]
    client.beta.messages.create(model=MODEL, max_tokens=1000, messages=following, betas=ON_DEMAND)
    assert asked_texts(gemini)[0] == f"{START}\n{WORDS}\n{END}"


def test_an_open_question_is_quoted(client, gemini):
    gemini.will_say(SUMMARY)
    message = compact(client, [*talk("open"), {"role": "user", "content": "And where are they?"}])
    assert message.content[0].content == f"{WORDS}\n\n## Last message of the user\nAnd where are they?"


def test_own_instructions_replace_the_task(client, gemini):
    gemini.will_say(SUMMARY)
    client.beta.messages.create(
        model=MODEL,
        max_tokens=1000,
        messages=talk("instructions"),
        compaction={"type": "summarize", "instructions": "Name the boats only."},
        betas=ON_DEMAND,
    )
    assert asked_texts(gemini)[1] == "Name the boats only."


def refused(client, messages, **more) -> str | None:
    with pytest.raises(anthropic.BadRequestError) as error:
        client.beta.messages.create(model=MODEL, max_tokens=100, messages=messages, betas=ON_DEMAND, **more)
    return error.value.error_code


def test_an_open_tool_call_is_refused(client, gemini):
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    messages = [*talk("call"), {"role": "user", "content": "Look."}, {"role": "assistant", "content": [call]}]
    code = refused(client, messages, compaction={"type": "summarize"})
    assert code == "compaction_incomplete_turn"


def test_an_empty_conversation_is_refused(client, gemini):
    code = refused(client, [{"role": "system", "content": "Hi"}], compaction={"type": "summarize"})
    assert code == "compaction_nothing_to_summarize"


def test_changed_foreign_and_misplaced_blocks_are_refused(client, gemini):
    gemini.will_say(SUMMARY)
    block = compact(client, talk("changed")).content[0].to_dict()
    question = {"role": "user", "content": "And now?"}
    told = {"role": "assistant", "content": [{**block, "content": "Ten boats."}]}
    assert refused(client, [told, question]) == "compaction_signature_invalid"
    mallory = client.with_options(api_key="mallory")
    mine = {"role": "assistant", "content": [block]}
    assert refused(mallory, [mine, question]) == "compaction_signature_invalid"
    assert refused(client, [question, mine, question]) == "compaction_block_misplaced"
    assert refused(client, [mine, question, mine, question]) == "compaction_block_ambiguous"


def test_a_block_of_another_vendor_is_dropped_and_counted(client, gemini):
    foreign = {"type": "compaction", "content": "Ten boats.", "signature": "EqQBCgIYAhIM"}
    raw = client.beta.messages.with_raw_response.create(
        model=MODEL,
        max_tokens=100,
        betas=ON_DEMAND,
        messages=[{"role": "assistant", "content": [foreign]}, {"role": "user", "content": "And now?"}],
    )
    assert raw.headers["x-bridge-losses"] == "messages.compaction"
    assert asked_texts(gemini) == ["And now?"]


def test_counting_ignores_the_wish(client, gemini):
    gemini.will_say([b'{"totalTokens": 12}'])
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    messages = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": [call]}]
    counted = client.beta.messages.count_tokens(
        model=MODEL, messages=messages, compaction={"type": "summarize"}, betas=ON_DEMAND
    )
    assert counted.input_tokens == 12


def test_models_say_that_they_can(client):
    model = next(iter(client.beta.models.list(betas=ON_DEMAND)))
    assert model.capabilities.compaction.summarize.supported


# --- at a threshold ----------------------------------------------------------------------------------


def long_talk(mark: str) -> list:
    """A conversation of some 50 000 tokens."""
    said = {"role": "user", "content": f"{mark}: " + "Look at all the boats. " * 9000}
    return [said, {"role": "assistant", "content": "I looked."}, {"role": "user", "content": "Well?"}]


def managed(**more):
    trigger = {"type": "input_tokens", "value": 50_000}
    return {"edits": [{"type": "compact_20260112", "trigger": trigger, **more}]}


def test_at_a_threshold_the_answer_begins_with_the_block(client, gemini):
    gemini.will_say(COUNTED, SUMMARY, sse(text_chunk("Three.", "STOP")))
    messages = long_talk("threshold")
    message = client.beta.messages.create(
        model=MODEL, max_tokens=1000, messages=messages, context_management=managed(), betas=THRESHOLD
    )
    assert [block.type for block in message.content] == ["compaction", "text"]
    assert message.stop_reason == "end_turn"
    said = f"{WORDS}\n\n## Last message of the user\nWell?"
    assert message.content[0].content == said
    assert message.content[0].encrypted_content
    assert asked_texts(gemini) == [f"{START}\n{said}\n{END}"]
    assert [(each.type, each.input_tokens, each.output_tokens) for each in message.usage.iterations] == [
        ("compaction", 50, 9),
        ("message", 5, 2),
    ]
    assert (message.usage.input_tokens, message.usage.output_tokens) == (5, 2)
    # The client appends the answer; everything before the block counts no more.
    more = [*messages, {"role": "assistant", "content": message.content}, {"role": "user", "content": "Now?"}]
    client.beta.messages.create(
        model=MODEL, max_tokens=1000, messages=more, context_management=managed(), betas=THRESHOLD
    )
    assert asked_texts(gemini) == [f"{START}\n{said}\n{END}", "Three.", "Now?"]


def test_a_pause_ends_the_answer_after_the_block(client, gemini):
    gemini.will_say(COUNTED, SUMMARY)
    messages = long_talk("pause")
    with client.beta.messages.stream(
        model=MODEL,
        max_tokens=1000,
        messages=messages,
        context_management=managed(pause_after_compaction=True),
        betas=THRESHOLD,
    ) as stream:
        message = stream.get_final_message()
    assert message.stop_reason == "compaction"
    (block,) = message.content
    assert block.type == "compaction"
    more = [*messages, {"role": "assistant", "content": message.content}]
    client.beta.messages.create(
        model=MODEL, max_tokens=1000, messages=more, context_management=managed(), betas=THRESHOLD
    )
    assert asked_texts(gemini) == [f"{START}\n{WORDS}\n\n## Last message of the user\nWell?\n{END}"]


def test_a_summary_that_fails_is_a_block_without_content(client, gemini):
    empty = sse(text_chunk(" ", "STOP"))
    gemini.will_say(COUNTED, empty, empty, empty, sse(text_chunk("Three.", "STOP")))
    messages = long_talk("fails")
    message = client.beta.messages.create(
        model=MODEL, max_tokens=1000, messages=messages, context_management=managed(), betas=THRESHOLD
    )
    assert [block.type for block in message.content] == ["compaction", "text"]
    assert message.content[0].content is None
    assert asked_texts(gemini)[0].startswith("fails: Look at all")
    more = [*messages, {"role": "assistant", "content": message.content}, {"role": "user", "content": "Now?"}]
    client.beta.messages.create(model=MODEL, max_tokens=1000, messages=more, betas=THRESHOLD)
    assert asked_texts(gemini)[0].startswith("fails: Look at all")


def test_below_the_threshold_nothing_happens(client, gemini):
    message = client.beta.messages.create(
        model=MODEL, max_tokens=100, messages=talk("below"), context_management=managed(), betas=THRESHOLD
    )
    assert [block.type for block in message.content] == ["text"]
    assert len(gemini.asked) == 1
