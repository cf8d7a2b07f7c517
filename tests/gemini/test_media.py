"""URLs and base64 data of media: Gemini's formats pass, others are refused with the field named."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import InvalidRequest
from bridge.gemini.media import inline_from_base64, media_from_url
from bridge.gemini.media_types import accepted_type
from bridge.gemini.types import Content, FileData, GenerateRequest, InlineData, Part
from bridge.gemini.wire import request_to_json

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
    ("url", "mime_type"),
    [
        ("https://example.com/cat.png", "image/png"),
        ("https://example.com/CAT.JPEG?width=9#top", "image/jpeg"),
        ("HTTPS://example.com/a%2Ewebp", "image/webp"),
        ("https://example.com:8443/report.pdf", "application/pdf"),
        ("https://example.com/sound.mp3", "audio/mp3"),
        ("https://example.com/film.mov", "video/mov"),
        ("https://example.com/page.html", "text/html"),
        ("https://example.com/cat.pdf/17", "a/usual"),
        ("https://example.com", "a/usual"),
        ("https://example.com/?file=cat.png", "a/usual"),
        ("https://generativelanguage.googleapis.com.example.com/a", "a/usual"),
        ("https://www.youtube.com/watch?v=abc", "video/mp4"),
        ("https://youtu.be/abc", "video/mp4"),
    ],
)
def test_another_https_address_becomes_a_file_with_its_field(url: str, mime_type: str) -> None:
    assert media_from_url(url, PARAM, "a/usual") == FileData(url, mime_type, param=PARAM)


def test_the_field_is_not_sent() -> None:
    body = request_to_json(
        GenerateRequest("m", (Content("user", (Part(FileData("a", "b/c", param=PARAM)),)),))
    )
    assert body["contents"][0]["parts"] == [{"fileData": {"mimeType": "b/c", "fileUri": "a"}}]


@pytest.mark.parametrize(
    ("declared", "content", "mime_type"),
    [
        ("image/png", b"", "image/png"),
        ("Image/PNG; charset=x", b"", "image/png"),
        ("image/jpg", b"", "image/jpeg"),
        ("video/quicktime", b"", "video/mov"),
        ("text/plain; charset=utf-8", b"", "text/plain"),
        ("text/html", b"\x89PNG\r\n\x1a\n", None),
        ("image/svg+xml", b"", None),
        ("image/gif", b"GIF89a", None),
        ("application/json", b"{}", None),
        ("application/octet-stream", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("binary/octet-stream", b"RIFF\0\0\0\0WEBP", "image/webp"),
        ("", b"RIFF\0\0\0\0WAVE", "audio/wav"),
        ("", b"\0\0\0\x18ftypisom", "video/mp4"),
        ("", b"\0\0\0\x18ftypheic", "image/heic"),
        ("", b"%PDF-1.7", "application/pdf"),
        ("", b"<html>", None),
        ("", b"MZ", None),
        ("", b"", None),
    ],
)
def test_fetched_content_has_a_type_that_gemini_accepts(
    declared: str, content: bytes, mime_type: str | None
) -> None:
    assert accepted_type(declared, content) == mime_type


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://example.com/cat.png",
        "https://",
        "https:///cat.png",
        "https:cat.png",
        "https://user@example.com/cat.png",
        "https://user:secret@example.com/cat.png",
        "https://@example.com/cat.png",
        "https://example.com:0/cat.png",
        "https://example.com:65536/cat.png",
        "https://example.com:port/cat.png",
        "https://[::1/cat.png",
        "https://example.com\\@localhost/cat.png",
        "https://example.com/a cat.png",
        "https://example.com/\r\nHost: localhost",
        " https://example.com/cat.png",
        "ftp://example.com/cat.png",
        "//example.com/cat.png",
        "http://generativelanguage.googleapis.com/v1beta/files/abc",
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
