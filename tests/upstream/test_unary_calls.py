"""Unary calls: embeddings."""

from __future__ import annotations

import math

import pytest

from bridge.errors import UnknownModel
from bridge.upstream.base import Upstream
from bridge.upstream.demo import DemoUpstream
from bridge.upstream.demo.embeddings import vector


def content(text: str) -> dict:
    return {"content": {"parts": [{"text": text}]}}


def test_an_upstream_without_unary_calls_raises_an_error():
    class Plain(Upstream):
        stream = count_tokens = models = None

    with pytest.raises(UnknownModel, match="embedContent"):
        Plain().unary_call("some-model", "embedContent", {})


def test_the_demo_model_gives_one_vector_or_several():
    demo = DemoUpstream()
    one = demo.unary_call("demo", "embedContent", content("red house"))["embedding"]
    several = demo.unary_call("demo", "batchEmbedContents", {"requests": [content("red house"), content("")]})
    assert several["embeddings"][0] == one
    assert math.hypot(*several["embeddings"][1]["values"]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("wanted", "size"), [(8, 8), (None, 64), (0, 64), (99_999, 64), ("8", 64)])
def test_the_demo_models_vectors_have_the_size_that_was_asked_for(wanted, size):
    body = {**content("red house"), "outputDimensionality": wanted}
    answer = DemoUpstream().unary_call("demo", "embedContent", body)
    assert len(answer["embedding"]["values"]) == size


def test_embeddings_ignore_word_order_and_case():
    assert vector("The red house", 64) == vector("house, red; THE", 64)
    assert vector("The red house", 64) != vector("The blue house", 64)
