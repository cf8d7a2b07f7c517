"""Media at https addresses in each protocol: real gunicorn, a scripted Gemini, and a local TLS server."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from certificates import Certificate, needs_openssl
from gunicorn_bridge import Bridge, gunicorn_bridge
from media_server import HOST, PNG, MediaServer, media_server, page, redirect
from scripted_gemini import Reply, ScriptedGemini
from scripted_tokens import TokenServer
from upstream_rigs import environment
from waiting import eventually

MODEL = "gemini-3.8-flash"
CAT, PRIVATE = f"https://{HOST}/cat.png", "https://intranet.example/cat.png"
REPORT, SOUND, FILM = f"https://{HOST}/report.pdf", f"https://{HOST}/sound.mp3", f"https://{HOST}/film.mp4"
YOUTUBE = "https://www.youtube.com/watch?v=abc"
MB = 1024 * 1024


def chat(part: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {"model": MODEL, "messages": [{"role": "user", "content": [part]}]}


def responses(part: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/responses", {"model": MODEL, "input": [{"role": "user", "content": [part]}]}


def messages(part: Any) -> tuple[str, dict[str, Any]]:
    body = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": [part]}]}
    return "/v1/messages", body


def native(part: Any) -> tuple[str, dict[str, Any]]:
    contents = [{"role": "user", "parts": [part]}]
    return f"/v1beta/models/{MODEL}:generateContent", {"contents": contents}


def interactions(part: Any) -> tuple[str, dict[str, Any]]:
    return "/v1beta/interactions", {"model": MODEL, "input": [part]}


def image_url(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def source(kind: str, url: str) -> dict[str, Any]:
    return {"type": kind, "source": {"type": "url", "url": url}}


#: A request, and the address and the type that Gemini is sent.
TO_GEMINI = {
    "chat image": (chat(image_url(CAT)), CAT, "image/png"),
    "chat video": (chat({"type": "video_url", "video_url": {"url": FILM}}), FILM, "video/mp4"),
    "chat YouTube": (chat({"type": "video_url", "video_url": {"url": YOUTUBE}}), YOUTUBE, "video/mp4"),
    "chat PDF": (chat({"type": "file", "file": {"file_data": REPORT}}), REPORT, "application/pdf"),
    "chat sound": (chat({"type": "file", "file": {"file_id": SOUND}}), SOUND, "audio/mp3"),
    "responses image": (responses({"type": "input_image", "image_url": CAT}), CAT, "image/png"),
    "responses PDF": (responses({"type": "input_file", "file_url": REPORT}), REPORT, "application/pdf"),
    "responses sound": (responses({"type": "input_file", "file_url": SOUND}), SOUND, "audio/mp3"),
    "responses video": (responses({"type": "input_file", "file_url": FILM}), FILM, "video/mp4"),
    "responses YouTube": (responses({"type": "input_file", "file_url": YOUTUBE}), YOUTUBE, "video/mp4"),
    "messages image": (messages(source("image", CAT)), CAT, "image/png"),
    "messages PDF": (messages(source("document", REPORT)), REPORT, "application/pdf"),
    "messages video": (messages(source("document", FILM)), FILM, "video/mp4"),
    "messages YouTube": (messages(source("document", YOUTUBE)), YOUTUBE, "video/mp4"),
}
#: The native protocols send any address to Gemini as it is, whatever the settings say.
AS_IT_IS = {
    "native": (native({"fileData": {"fileUri": CAT, "mimeType": "image/x"}}), CAT, "image/x"),
    "native http": (
        native({"fileData": {"fileUri": "http://a.test/b", "mimeType": "c/d"}}),
        "http://a.test/b",
        "c/d",
    ),
    "interactions": (interactions({"type": "image", "uri": CAT, "mime_type": "image/png"}), CAT, "image/png"),
}


def post(bridge: Bridge, asked: tuple[str, dict[str, Any]], **more: Any) -> requests.Response:
    path, body = asked
    return requests.post(f"{bridge.address}{path}", json=body | more, timeout=60)


def sent(gemini: ScriptedGemini) -> list[dict[str, Any]]:
    """The parts of the last request to Gemini."""
    return [part for content in gemini.asked[-1].body["contents"] for part in content["parts"]]


def message_of(answer: requests.Response) -> str:
    return str(answer.json()["error"]["message"])


# --- the upstream fetches ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "uri", "mime_type"), [*TO_GEMINI.values(), *AS_IT_IS.values()], ids=[*TO_GEMINI, *AS_IT_IS]
)
def test_an_address_reaches_gemini(
    bridge: Bridge, gemini: ScriptedGemini, asked: Any, uri: str, mime_type: str
) -> None:
    answer = post(bridge, asked)
    assert answer.status_code == 200, answer.text
    assert sent(gemini) == [{"fileData": {"mimeType": mime_type, "fileUri": uri}}]


def test_an_address_is_counted(bridge: Bridge, gemini: ScriptedGemini) -> None:
    gemini.will_say(Reply([b'{"totalTokens": 31}']))
    _, body = messages(source("image", CAT))
    counted = post(
        bridge, ("/v1/messages/count_tokens", {k: v for k, v in body.items() if k != "max_tokens"})
    )
    assert counted.json() == {"input_tokens": 31}
    (content,) = gemini.asked[-1].body["generateContentRequest"]["contents"]
    assert content["parts"] == [{"fileData": {"mimeType": "image/png", "fileUri": CAT}}]


def test_an_address_in_a_tool_result_reaches_gemini(bridge: Bridge, gemini: ScriptedGemini) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = [{"type": "input_image", "image_url": CAT}]
    result = {"type": "function_call_output", "call_id": "c1", "output": output}
    answer = post(
        bridge,
        ("/v1/responses", {"model": MODEL, "input": [{"role": "user", "content": "Look."}, call, result]}),
    )
    assert answer.status_code == 200, answer.text
    assert {"fileData": {"mimeType": "image/png", "fileUri": CAT}} in [
        *sent(gemini),
        *[part for each in sent(gemini) for part in each.get("functionResponse", {}).get("parts", ())],
    ]


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (chat(image_url("http://example.org/a.png")), "messages[0].content[0].image_url.url"),
        (
            responses({"type": "input_file", "file_url": "ftp://example.org/a"}),
            "input[0].content[0].file_url",
        ),
        (messages(source("document", "https://u:p@example.org/a")), "messages[0].content[0].source.url"),
    ],
)
def test_other_addresses_are_refused(bridge: Bridge, gemini: ScriptedGemini, asked: Any, param: str) -> None:
    answer = post(bridge, asked)
    assert answer.status_code == 400
    assert message_of(answer).startswith(f"{param}: must be a data: URL or a complete https address")
    assert gemini.asked == []


# --- nobody fetches ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def code_assist(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bridge, ScriptedGemini]]:
    api, tokens = ScriptedGemini(), TokenServer()
    environ = environment("code_assist", api.address, tokens.address, tmp_path_factory.mktemp("login"))
    with gunicorn_bridge(**environ, BRIDGE_SERVER__WORKERS="1") as running:
        yield running, api
    api.close()
    tokens.close()


@pytest.mark.parametrize(("asked", "uri", "_type"), TO_GEMINI.values(), ids=TO_GEMINI)
def test_an_upstream_that_fetches_nothing_is_a_400_that_names_the_field(
    code_assist: tuple[Bridge, ScriptedGemini], asked: Any, uri: str, _type: str
) -> None:
    bridge, api = code_assist
    answer = post(bridge, asked)
    assert answer.status_code == 400
    reason = "does not read YouTube videos" if uri == YOUTUBE else r"nor does the bridge \(media\.fetch\)"
    assert re.match(
        rf"(messages|input)\[0\]\.content\[0\]\.[a-z_.]+: this upstream .*{reason}", message_of(answer)
    )
    assert "generateContent" not in "".join(asked.path for asked in api.asked)


# --- the bridge fetches ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MediaServer, Certificate]]:
    with media_server(tmp_path_factory.mktemp("media")) as both:
        yield both


@pytest.fixture
def server(_server: tuple[MediaServer, Certificate]) -> MediaServer:
    _server[0].forget()
    return _server[0]


@pytest.fixture(scope="module")
def fetching(
    _server: tuple[MediaServer, Certificate], _gemini: ScriptedGemini, canary_key: str
) -> Iterator[Bridge]:
    server, certificate = _server
    with gunicorn_bridge(
        "tests.support.fetching_bridge:app",
        GEMINI_API_KEY=canary_key,
        GOOGLE_GEMINI_BASE_URL=_gemini.address,
        BRIDGE_SERVER__WORKERS="1",
        BRIDGE_SERVER__MAX_BODY_MB="1",
        BRIDGE_SERVER__MEMORY_MB="16",
        BRIDGE_MEDIA__FETCH="true",
        BRIDGE_MEDIA__MAX_MB="5",
        BRIDGE_MEDIA__TIMEOUT="1.5",
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        MEDIA_PORT=str(server.port),
        MEDIA_CERTIFICATE=str(certificate.certificate),
        HTTPS_PROXY="http://127.0.0.1:9",  # Gemini's address is plain http: only a fetch would use this proxy
    ) as running:
        yield running


FETCHED = {name: asked for name, asked in TO_GEMINI.items() if asked[1] != YOUTUBE}


@needs_openssl
@pytest.mark.parametrize(("asked", "uri", "mime_type"), FETCHED.values(), ids=FETCHED)
def test_the_bridge_fetches_an_address(
    fetching: Bridge, gemini: ScriptedGemini, server: MediaServer, asked: Any, uri: str, mime_type: str
) -> None:
    server.pages[uri.removeprefix(f"https://{HOST}")] = page(PNG, mime_type)
    answer = post(fetching, asked)
    assert answer.status_code == 200, answer.text
    assert sent(gemini) == [{"inlineData": {"mimeType": mime_type, "data": base64.b64encode(PNG).decode()}}]


@needs_openssl
@pytest.mark.parametrize(
    ("asked", "uri", "mime_type"),
    [*AS_IT_IS.values(), *(each for each in TO_GEMINI.values() if each[1] == YOUTUBE)],
)
def test_the_bridge_does_not_fetch_videos_of_youtube_and_addresses_in_the_native_protocols(
    fetching: Bridge, gemini: ScriptedGemini, server: MediaServer, asked: Any, uri: str, mime_type: str
) -> None:
    answer = post(fetching, asked)
    assert answer.status_code == 200, answer.text
    assert sent(gemini) == [{"fileData": {"mimeType": mime_type, "fileUri": uri}}]
    assert server.heads == []


@needs_openssl
def test_an_address_is_fetched_once_for_a_request(
    fetching: Bridge, gemini: ScriptedGemini, server: MediaServer
) -> None:
    server.pages["/cat.png"] = [0.4, *page()]
    path, body = chat(image_url(CAT))
    body["messages"] *= 3
    answer = post(fetching, (path, body))
    assert answer.status_code == 200, answer.text
    assert len(sent(gemini)) == 3
    assert all("inlineData" in part for part in sent(gemini))
    assert len(server.heads) == 1
    assert float(answer.headers["X-Bridge-Overhead-Ms"]) < 300, "waiting for the media server is not overhead"


@needs_openssl
def test_tokens_are_counted_with_the_content(
    fetching: Bridge, gemini: ScriptedGemini, server: MediaServer
) -> None:
    server.pages["/cat.png"] = page()
    gemini.will_say(Reply([b'{"totalTokens": 31}']))
    _, body = messages(source("image", CAT))
    post(fetching, ("/v1/messages/count_tokens", {k: v for k, v in body.items() if k != "max_tokens"}))
    (content,) = gemini.asked[-1].body["generateContentRequest"]["contents"]
    assert "inlineData" in content["parts"][0]


@needs_openssl
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (PRIVATE, "not a public host"),
        ("https://127.0.0.1/cat.png", "not a public host"),
        (f"https://{HOST}:41242/cat.png", "only port 443"),
        (f"https://{HOST}/missing.png", "status 404"),
        (f"https://{HOST}/page.png", "content type"),
        (f"https://{HOST}/moved.png", "not a public host"),
        (f"https://{HOST}/slow.png", "within 1.5 seconds"),
        (f"https://{HOST}/large.png", "5 MB"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_fetched_is_a_400_that_names_the_field(
    fetching: Bridge, gemini: ScriptedGemini, server: MediaServer, url: str, reason: str, stream: bool
) -> None:
    server.pages |= {
        "/page.png": page(b"<html>", "text/html"),
        "/moved.png": redirect(PRIVATE),
        "/slow.png": [5.0],
        "/large.png": page(bytes(5 * MB + 1)),
    }
    began = time.monotonic()
    answer = post(fetching, chat(image_url(url)), stream=stream)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "messages[0].content[0].image_url.url"
    assert error["message"].startswith(f"{error['param']}: the bridge cannot fetch the address: ")
    assert reason in error["message"]
    assert "10.0.0.7" not in answer.text + fetching.lines()
    assert gemini.asked == []
    assert time.monotonic() - began < 5


@needs_openssl
def test_fetched_bytes_need_free_memory_of_the_worker(
    fetching: Bridge, gemini: ScriptedGemini, server: MediaServer
) -> None:
    """16 MB hold 4 MB of JSON, and thus 3 MB as base64."""
    server.pages |= {"/fits.png": page(bytes(2 * MB)), "/large.png": page(bytes(4 * MB))}
    answer = post(fetching, chat(image_url(f"https://{HOST}/large.png")))
    assert (answer.status_code, gemini.asked) == (413, [])
    assert post(fetching, chat(image_url(f"https://{HOST}/fits.png"))).status_code == 200
    assert eventually(lambda: _booked(fetching) == 0), "released at the end of each request"


def _booked(bridge: Bridge) -> float:
    exposed = requests.get(f"{bridge.address}/metrics", timeout=20).text
    return float(re.findall(r"^gemini_bridge_memory_booked_bytes (\S+)$", exposed, re.MULTILINE)[0])


@needs_openssl
def test_a_background_answer_has_its_media_too(
    fetching: Bridge, gemini: ScriptedGemini, server: MediaServer
) -> None:
    server.pages["/cat.png"] = page()
    pending = post(fetching, responses({"type": "input_image", "image_url": CAT}), background=True).json()
    address = f"{fetching.address}/v1/responses/{pending['id']}"
    assert eventually(lambda: requests.get(address, timeout=20).json()["status"] == "completed")
    assert "inlineData" in sent(gemini)[0]
