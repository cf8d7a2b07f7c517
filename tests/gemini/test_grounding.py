"""Citations: Gemini's byte offsets become characters of the text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.gemini.grounding import Citation, WebSource, citations_in

PAGES = [{"web": {"uri": f"https://example.org/{n}", "title": f"Page {n}"}} for n in range(3)]

#: Characters of one, two, three and four bytes.
TEXTS = st.text(st.sampled_from("ab .\néß€漢😀"), max_size=60)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def support(text: str, start: int, end: int, *pages: int, quoted: bool = True) -> dict[str, Any]:
    """The support of `text[start:end]`, as Gemini writes it: without an index of 0."""
    first, last = len(text[:start].encode()), len(text[:end].encode())
    segment = {"startIndex": first, "endIndex": last, "text": text[start:end]}
    left_out = {"startIndex"} if first == 0 else set()
    left_out |= set() if quoted else {"text"}
    segment = {key: value for key, value in segment.items() if key not in left_out}
    return {"segment": segment, "groundingChunkIndices": list(pages)}


def grounding(*supports: Any) -> dict[str, Any]:
    return {"groundingChunks": PAGES, "groundingSupports": list(supports)}


@st.composite
def texts_with_spans(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    text = draw(TEXTS.filter(bool))
    start = st.integers(0, len(text) - 1)
    spans = start.flatmap(lambda first: st.tuples(st.just(first), st.integers(first + 1, len(text))))
    return text, draw(st.lists(spans, max_size=4, unique=True))


@given(texts_with_spans(), st.booleans())
def test_the_indices_are_those_of_the_characters(
    text_with_spans: tuple[str, list[tuple[int, int]]], quoted: bool
) -> None:
    text, spans = text_with_spans
    supports = [support(text, start, end, 1, quoted=quoted) for start, end in spans]
    found = citations_in(text, grounding(*supports))
    assert [(each.start, each.end) for each in found] == spans


@given(texts_with_spans(), st.integers(1, 3), TEXTS.filter(bool))
def test_a_segment_counted_from_a_later_part_is_found_by_its_text(
    text_with_spans: tuple[str, list[tuple[int, int]]], pages: int, before: str
) -> None:
    text, spans = text_with_spans
    supports = [support(text, start, end, *range(pages)) for start, end in spans]
    found = citations_in(before + text, grounding(*supports))
    assert len(found) <= len(spans) * pages
    assert {(before + text)[each.start : each.end] for each in found} == {text[a:b] for a, b in spans}


@given(TEXTS, st.integers(-3, 200), st.integers(-3, 200))
def test_any_offsets_stay_in_the_text(text: str, start: int, end: int) -> None:
    segment = {"startIndex": start, "endIndex": end}
    for each in citations_in(text, grounding({"segment": segment, "groundingChunkIndices": [0]})):
        assert 0 <= each.start < each.end <= len(text)
        assert len(text[: each.start].encode()) <= start
        assert len(text[: each.end].encode()) >= min(end, len(text.encode()))


@given(TEXTS, st.lists(ANY_JSON, max_size=3), st.lists(ANY_JSON, max_size=3))
def test_any_json_is_read_without_an_error(text: str, chunks: list[Any], supports: list[Any]) -> None:
    metadata = {"groundingChunks": chunks, "groundingSupports": supports}
    assert citations_in(text, metadata) == []


def test_a_support_of_several_pages_is_a_citation_of_each() -> None:
    text = "It is öde. It is hot."
    found = citations_in(text, grounding(support(text, 0, 10, 0, 2), support(text, 11, 21, 1)))
    page = [WebSource(f"https://example.org/{n}", f"Page {n}") for n in range(3)]
    assert found == [Citation(0, 10, page[0]), Citation(0, 10, page[2]), Citation(11, 21, page[1])]


@pytest.mark.parametrize(
    "faulty",
    [
        pytest.param(support("hot", 0, 3, 3), id="page that is not there"),
        pytest.param(support("cold", 0, 4, 0), id="text that is not there"),
        pytest.param({"segment": {"endIndex": 3}}, id="no page"),
        pytest.param({"groundingChunkIndices": [0]}, id="no segment"),
        pytest.param({"segment": {"startIndex": 2}, "groundingChunkIndices": [0]}, id="no end"),
        pytest.param({"segment": {"endIndex": "3"}, "groundingChunkIndices": [True]}, id="wrong types"),
    ],
)
def test_what_cannot_be_cited_is_left_out(faulty: Any) -> None:
    assert citations_in("hot", grounding(faulty)) == []


def test_without_grounding_there_are_no_citations() -> None:
    assert citations_in("text", None) == citations_in("", grounding(support("x", 0, 1, 0))) == []
