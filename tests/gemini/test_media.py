"""URLs and base64 data of media: Gemini's formats pass, others are refused with the field named."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import InvalidRequest
from bridge.gemini.media import inline_from_base64, media_from_url
from bridge.gemini.types import FileData, InlineData

PARAM = "messages[0].content[1].image_url.url"
PIXEL = base64.b64encode(b"\x89PNG").decode()


@pytest.mark.parametrize(
    ("url", "mime_type"),
    [
        (f"data:image/png;base64,{PIXEL}", "image/png"),
        (f"DATA:IMAGE/PNG;BASE64,{PIXEL}", "image/png"),
        (f"data:text/plain;charset=utf-8;base64,{PIXEL}", "text/plain"),
        (f"data:image/svg+xml;base64,{PIXEL}", "image/svg+xml"),
    ],
)
def test_a_data_url_becomes_inline_data(url: str, mime_type: str) -> None:
    assert media_from_url(url, PARAM) == InlineData(mime_type, PIXEL)


@pytest.mark.parametrize(
    "address",
    ["gs://bucket/object.png", "https://generativelanguage.googleapis.com/v1beta/files/abc"],
)
def test_a_supported_url_becomes_file_data(address: str) -> None:
    assert media_from_url(address, PARAM) == FileData(address)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://example.com/cat.png",
        "http://generativelanguage.googleapis.com/v1beta/files/abc",
        "https://generativelanguage.googleapis.com.example.com/a",
        "file:///etc/passwd",
        "file-abc123",
        "data:",
        "data:image/png",
        f"data:image/png;base64;{PIXEL}",
        f"data:;base64,{PIXEL}",
        f"data:png;base64,{PIXEL}",
        "data:text/plain,Hello",
        "data:image/png;base64,not base64",
        "data:image/png;base64,AAA",
        "data:image/png;base64,ééé=",
    ],
)
def test_other_urls_are_refused_with_the_field_named(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        media_from_url(url, PARAM)
    assert refused.value.param == PARAM
    assert refused.value.message.startswith(PARAM)


@pytest.mark.parametrize("data", ["=", "A", "A-_A", "AA AA", "AAAA\n", "é"])
def test_bad_base64_is_refused_with_the_field_named(data: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        inline_from_base64("audio/wav", data, PARAM)
    assert refused.value.param == PARAM


@pytest.mark.parametrize("url", ["data:image/png;base64,", "data:image/png;base64,===="])
def test_media_without_content_is_refused_with_the_field_named(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        media_from_url(url, PARAM)
    assert refused.value.param == PARAM


@given(content=st.binary(min_size=1))
def test_valid_base64_is_unchanged(content: bytes) -> None:
    data = base64.b64encode(content).decode()
    assert inline_from_base64("a/b", data, PARAM) == InlineData("a/b", data)
    assert media_from_url(f"data:a/b;base64,{data}", PARAM) == InlineData("a/b", data)


@given(url=st.text(max_size=40) | st.text("data:;,/base64 ", max_size=40).map("data:".__add__))
def test_every_url_is_accepted_or_refused_with_the_field_named(url: str) -> None:
    assert param_of_refusal(url) in (None, PARAM)


def param_of_refusal(url: str) -> str | None:
    try:
        media_from_url(url, PARAM)
    except InvalidRequest as refused:
        return refused.param or "none named"
    return None
