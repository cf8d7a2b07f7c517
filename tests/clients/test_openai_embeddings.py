"""Embeddings with the real `openai` package, against real gunicorn and a scripted Gemini."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator
from typing import Any

import openai
import orjson
import pytest
import requests
from openai import OpenAI
from scripted_gemini import Asked, Reply

NAME = "gemini-embedding-001"


@pytest.fixture
def client(bridge) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{bridge.address}/v1", api_key="client-key", max_retries=0) as sdk:
        yield sdk


def vectors(*values: list[float], **more: Any) -> Reply:
    return Reply([orjson.dumps({"embeddings": [{"values": each} for each in values], **more})])


def test_a_text_becomes_a_vector_of_length_one(client, gemini):
    gemini.will_say(vectors([3.0, 4.0], usageMetadata={"promptTokenCount": 6}))
    made = client.embeddings.create(model=NAME, input="Hello", encoding_format="float")
    (found,) = made.data
    assert (found.object, found.index, found.embedding) == ("embedding", 0, [0.6, 0.8])
    assert (made.object, made.model) == ("list", NAME)
    assert (made.usage.prompt_tokens, made.usage.total_tokens) == (6, 6)
    asked = gemini.asked[-1]
    assert asked.path == f"/v1beta/models/{NAME}:batchEmbedContents"
    assert asked.body == {
        "requests": [{"model": f"models/{NAME}", "content": {"parts": [{"text": "Hello"}]}}]
    }


def test_the_sdk_decodes_base64_as_it_does_by_default(client, gemini):
    gemini.will_say(vectors([3.0, 4.0]))
    found = client.embeddings.create(model=NAME, input="Hello").data[0].embedding
    assert found == pytest.approx([0.6, 0.8], abs=1e-7)


def test_base64_holds_little_endian_floats_of_32_bits(client, gemini):
    gemini.will_say(vectors([0.0, -2.0]))
    found = client.embeddings.create(model=NAME, input="Hello", encoding_format="base64").data[0].embedding
    assert struct.unpack("<2f", base64.b64decode(str(found))) == (0.0, -1.0)


def test_several_texts_become_vectors_in_their_order(client, gemini):
    gemini.will_say(vectors([1.0, 0.0], [0.0, 5.0]))
    made = client.embeddings.create(model=NAME, input=["one", "two"], encoding_format="float")
    assert [(each.index, each.embedding) for each in made.data] == [(0, [1.0, 0.0]), (1, [0.0, 1.0])]
    texts = [each["content"]["parts"][0]["text"] for each in gemini.asked[-1].body["requests"]]
    assert texts == ["one", "two"]


def test_many_texts_go_to_google_in_batches_that_it_takes(client, gemini):
    def counted(asked: Asked) -> list[bytes]:
        texts = [each["content"]["parts"][0]["text"] for each in asked.body["requests"]]
        answer = {
            "embeddings": [{"values": [float(text), 1.0]} for text in texts],
            "usageMetadata": {"promptTokenCount": len(texts)},
        }
        return [orjson.dumps(answer)]

    gemini.will_answer(counted)
    texts = [str(number) for number in range(250)]
    made = client.embeddings.create(model=NAME, input=texts, encoding_format="float")
    assert [len(asked.body["requests"]) for asked in gemini.asked] == [100, 100, 50]
    assert [each.index for each in made.data] == list(range(250))
    ratios = [round(each.embedding[0] / each.embedding[1]) for each in made.data]
    assert ratios == list(range(250))
    assert made.usage.prompt_tokens == 250


@pytest.mark.parametrize(
    ("model", "dimensions", "sent"),
    [
        ("text-embedding-3-small", None, ("gemini-embedding-2", 1536)),
        ("text-embedding-ada-002", None, ("gemini-embedding-2", 1536)),
        ("text-embedding-3-large", None, ("gemini-embedding-2", 3072)),
        ("text-embedding-3-large", 256, ("gemini-embedding-2", 256)),
        (NAME, None, (NAME, None)),
        (f"models/{NAME}", 768, (NAME, 768)),
    ],
)
def test_the_vectors_have_the_size_that_is_asked_for_or_usual(client, gemini, model, dimensions, sent):
    gemini.will_say(vectors([1.0]))
    more = {} if dimensions is None else {"dimensions": dimensions}
    made = client.embeddings.create(model=model, input="Hello", **more)
    assert made.model == model
    asked = gemini.asked[-1]
    assert (
        asked.path.split("/")[-1].split(":")[0],
        asked.body["requests"][0].get("outputDimensionality"),
    ) == (sent)


def test_tokens_are_estimated_if_google_does_not_count_them(client, gemini, bridge):
    gemini.will_say(vectors([1.0]))
    made = client.embeddings.with_raw_response.create(model=NAME, input="x" * 300)
    assert made.parse().usage.prompt_tokens == 100
    line = bridge.request(request_id=made.headers["x-request-id"])
    assert line["notes"] == {"embedding.tokens_estimated": 1}
    assert line["input_tokens"] == 100


@pytest.mark.parametrize("options", [{"input": "Hello"}, {"input": [5]}])
def test_records_name_embeddings_apart_from_chats(client, gemini, bridge, options):
    gemini.will_say(vectors([1.0]))
    answer = requests.post(f"{bridge.address}/v1/embeddings", json={"model": NAME, **options}, timeout=30)
    line = bridge.request(request_id=answer.headers["x-request-id"])
    assert line["protocol"] == "openai_embeddings"


def test_a_vector_of_zeros_stays_one(client, gemini):
    gemini.will_say(vectors([0.0, 0.0]))
    made = client.embeddings.create(model=NAME, input="Hello", encoding_format="float")
    assert made.data[0].embedding == [0.0, 0.0]


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": None}, "input"),
        ({"input": 7}, "input"),
        ({"input": [1, 2, 3]}, "input[0]"),
        ({"input": [[1, 2], [3]]}, "input[0]"),
        ({"input": ["one", 2]}, "input[1]"),
        ({"input": ["one", ""]}, "input[1]"),
        ({"input": ["x"] * 2049}, "input"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": "many"}, "dimensions"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"user": 7}, "user"),
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
    ],
)
def test_bad_input_is_a_400_that_names_the_field(client, gemini, wrong, param):
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/embeddings", body={"model": NAME, "input": "Hello", **wrong}, cast_to=object)
    assert refused.value.body["param"] == param
    assert refused.value.body["type"] == "invalid_request_error"
    assert not gemini.asked


def test_a_request_without_input_or_model_is_a_400(client):
    for body, param in (({"model": NAME}, "input"), ({"input": "Hello"}, "model")):
        with pytest.raises(openai.BadRequestError) as refused:
            client.post("/embeddings", body=body, cast_to=object)
        assert refused.value.body["param"] == param


@pytest.mark.parametrize(
    ("status", "google", "raised"),
    [
        (400, "INVALID_ARGUMENT", openai.BadRequestError),
        (404, "NOT_FOUND", openai.NotFoundError),
        (429, "RESOURCE_EXHAUSTED", openai.RateLimitError),
        (503, "UNAVAILABLE", openai.InternalServerError),
    ],
)
def test_errors_arrive_as_the_sdks_own_exceptions(client, gemini, status, google, raised):
    envelope = b'{"error": {"code": %d, "message": "No.", "status": "%b"}}' % (status, google.encode())
    gemini.will_answer(lambda _asked: Reply([envelope], status=status))
    with pytest.raises(raised):
        client.embeddings.create(model=NAME, input="Hello")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"embeddings": []},
        {"embeddings": [{"values": [1.0]}, {"values": [1.0]}]},
        {"embeddings": [{}]},
        {"embeddings": [{"values": ["one"]}]},
        {"embeddings": "none"},
    ],
)
def test_an_answer_without_the_vectors_is_a_502(client, gemini, answer):
    gemini.will_say(Reply([orjson.dumps(answer)]))
    with pytest.raises(openai.InternalServerError) as failed:
        client.embeddings.create(model=NAME, input="Hello")
    assert failed.value.body["code"] == "upstream_malformed"


def test_the_demo_model_embeds_offline(demo_bridge):
    with OpenAI(base_url=f"{demo_bridge.address}/v1", api_key="any") as sdk:
        made = sdk.embeddings.create(
            model="text-embedding-3-small", input=["red house", "red car", "quick fox"]
        )
    red, also_red, other = (each.embedding for each in made.data)
    assert len(red) == 1536
    assert math.hypot(*red) == pytest.approx(1, abs=1e-6)
    assert similarity(red, also_red) > 0.4 > similarity(red, other)
    assert made.usage.prompt_tokens == 6


def similarity(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
