"""The REST upstream against a scripted Gemini; `test_gemini_socket.py` tests its connections."""

from __future__ import annotations

import inspect
import re
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

import orjson
import pytest
import requests
import urllib3
from file_descriptor_limit import no_free_file_descriptors
from gunicorn_bridge import free_port
from scripted_gemini import Reply, ScriptedGemini

import bridge
from bridge import errors
from bridge.errors import BridgeError
from bridge.gemini.types import Chunk, Content, FunctionCall, GenerateRequest, Part
from bridge.upstream import rest
from bridge.upstream.base import ChunkStream
from bridge.upstream.gemini import GeminiUpstream
from bridge.upstream.transport.exception_map import foreign_errors_translated, translate
from bridge.upstream.transport.http_response import Timeouts

NOWHERE = "https://gemini.test"
KEY = "AIzaSyD-0123456789abcdefghijklmnopqrst_uv"
MODELS = "/v1beta/models"
STREAM = f"{MODELS}/gemini-x:streamGenerateContent"


@pytest.fixture(autouse=True)
def _no_proxies_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
    ):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def upstream(
    base_url: str = NOWHERE, *keys: str, read_timeout: float = 5, pool_size: int = 4
) -> GeminiUpstream:
    return GeminiUpstream(
        base_url=base_url,
        keys=keys or (KEY,),
        timeouts=Timeouts(connect=5, first_byte=read_timeout, between=read_timeout, whole=60),
        key_cooldown=60,
        pool_size=pool_size,
    )


def request(model: str = "gemini-x", **fields: Any) -> GenerateRequest:
    return GenerateRequest(model, (Content("user", (Part("Hello"),)),), **fields)


def text_chunk(text: str) -> bytes:
    return orjson.dumps({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]})


def events(*texts: str) -> bytes:
    return b"".join(b"data: " + text_chunk(text) + b"\r\n\r\n" for text in texts)


def failure(code: int, status: str, message: str = "no", **more: Any) -> bytes:
    return orjson.dumps({"error": {"code": code, "status": status, "message": message, **more}})


def texts(batch: Any) -> list[Any]:
    return [part.data for chunk in batch for candidate in chunk.candidates for part in candidate.parts]


def read(stream: ChunkStream) -> list[list[Any]]:
    return [texts(batch) for batch in stream]


def read_until_error(stream: ChunkStream) -> tuple[list[list[Any]], BridgeError]:
    seen: list[list[Any]] = []
    with pytest.raises(BridgeError) as caught:
        seen.extend(map(texts, stream))
    return seen, caught.value


# --- requests ----------------------------------------------------------------------------------------


def test_the_request_goes_out_as_gemini_expects_it(api: ScriptedGemini) -> None:
    api.will_say([events("Hi")])
    read(upstream(f"{api.address}/").stream(request("models/gemini-x", generation={"seed": 7})))
    sent = api.asked[0]
    assert sent.path == f"{STREAM}?alt=sse"
    assert sent.body == {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "generationConfig": {"seed": 7},
    }
    assert sent.headers["x-goog-api-key"] == KEY
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["accept-encoding"] == "identity"
    assert sent.headers["user-agent"] == f"gemini-bridge/{bridge.__version__}"
    assert "authorization" not in sent.headers


@pytest.mark.parametrize(
    ("model", "segment"),
    [
        ("../../v1/files", "..%2F..%2Fv1%2Ffiles"),
        ("x?key=1#", "x%3Fkey%3D1%23"),
        ("a%2Fb", "a%252Fb"),
        ("..", ".."),
        ("x@evil.test", "x%40evil.test"),
        ("modèle", "mod%C3%A8le"),
        ("\ud800", "%3F"),
        ("a\r\nHost: b", "a%0D%0AHost%3A%20b"),
    ],
)
def test_a_model_name_cannot_change_the_url(api: ScriptedGemini, model: str, segment: str) -> None:
    api.will_say([events("Hi")])
    read(upstream(api.address).stream(request(model)))
    assert api.asked[0].path == f"{MODELS}/{segment}:streamGenerateContent?alt=sse"


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (nested(300), "nested too deeply"),
        ({"n": 2**70}, "64-bit"),
        ({"s": "\ud800"}, "surrogates"),
        ({"o": {1}}, "set"),
    ],
)
def test_values_that_json_cannot_hold_are_a_client_error(args: dict[str, Any], reason: str) -> None:
    called = GenerateRequest("gemini-x", (Content("model", (Part(FunctionCall("f", args)),)),))
    with pytest.raises(errors.InvalidRequest, match=reason):
        upstream().stream(called)


# --- answers -----------------------------------------------------------------------------------------


def test_chunks_received_together_are_yielded_together(api: ScriptedGemini) -> None:
    api.will_say([events("a", "b", "c")])
    stream = upstream(api.address).stream(request())
    batches = list(stream)
    assert [texts(batch) for batch in batches] == [["a", "b", "c"]]
    assert all(isinstance(chunk, Chunk) for chunk in batches[0])


@pytest.mark.parametrize("body", [b"", b": ping\n\n", b"data:\n\n"])
def test_no_batch_is_ever_empty(api: ScriptedGemini, body: bytes) -> None:
    api.will_say([body])
    assert read(upstream(api.address).stream(request())) == []


def test_an_unterminated_last_event_is_not_lost(api: ScriptedGemini) -> None:
    api.will_say([events("a", "b").rstrip()])
    assert read(upstream(api.address).stream(request())) == [["a"], ["b"]]


def test_a_plain_json_array_is_read_as_its_chunks(api: ScriptedGemini) -> None:
    api.will_say([b"[" + text_chunk("a") + b"\n,\n" + text_chunk("b") + b"]"])
    assert read(upstream(api.address).stream(request())) == [["a", "b"]]


PRETTY = b'{\n  "error": {\n    "code": 503,\n    "message": "busy",\n    "status": "UNAVAILABLE"\n  }\n}\n'


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (b"data: " + failure(503, "UNAVAILABLE") + b"\n\n", errors.UpstreamOverloaded),
        (b"data: " + failure(429, "RESOURCE_EXHAUSTED") + b"\n\n", errors.UpstreamRateLimited),
        (PRETTY, errors.UpstreamOverloaded),
        (b"[" + PRETTY + b"]", errors.UpstreamOverloaded),
        (b"data: {nonsense\n\n", errors.UpstreamMalformed),
        (b"data: [1]\n\n", errors.UpstreamMalformed),
        (b"data: []\n\n", errors.UpstreamMalformed),
        (b"data: 7\n\n", errors.UpstreamMalformed),
        (b"data: \xff\n\n", errors.UpstreamMalformed),
        (b"<html>sorry</html>", errors.UpstreamMalformed),
        (b'data: {"candidates": [', errors.UpstreamTruncated),
    ],
)
def test_data_received_before_a_failure_is_yielded_first(
    api: ScriptedGemini, tail: bytes, expected: type[BridgeError]
) -> None:
    api.will_say([events("a", "b") + tail])
    seen, error = read_until_error(upstream(api.address).stream(request()))
    assert seen == [["a", "b"]]
    assert type(error) is expected


def test_nothing_is_read_after_a_failure(api: ScriptedGemini) -> None:
    api.will_say([events("a") + b"data: 7\n\n" + events("b")])
    seen, _ = read_until_error(upstream(api.address).stream(request()))
    assert seen == [["a"]]


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        (400, "INVALID_ARGUMENT", errors.UpstreamRefused),
        (404, "NOT_FOUND", errors.UnknownModel),
        (500, "INTERNAL", errors.UpstreamUnreachable),
        (503, "UNAVAILABLE", errors.UpstreamOverloaded),
    ],
)
def test_an_http_error_is_raised_before_anything_is_read(
    api: ScriptedGemini, code: int, status: str, expected: type[BridgeError]
) -> None:
    api.will_say(Reply([failure(code, status)], code))
    with pytest.raises(expected):
        read(upstream(api.address, "key-one", "key-two").stream(request()))
    assert len(api.asked) == 1, "no second key would have helped"


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(api: ScriptedGemini, code: int) -> None:
    api.will_say(Reply([], code, {"Location": "https://evil.test/"}))
    address = api.address.replace("//", "//me:secret@")
    with pytest.raises(errors.UpstreamMisconfigured, match=re.escape(api.address)) as caught:
        read(upstream(address, "key-one", "key-two").stream(request()))
    assert "secret" not in caught.value.message
    assert "evil" not in caught.value.message
    assert len(api.asked) == 1


# --- keys --------------------------------------------------------------------------------------------


def keys_used(api: ScriptedGemini) -> list[str]:
    return [asked.headers["x-goog-api-key"] for asked in api.asked]


@pytest.mark.parametrize(
    ("code", "status"),
    [(429, "RESOURCE_EXHAUSTED"), (403, "PERMISSION_DENIED"), (400, "FAILED_PRECONDITION")],
)
def test_a_refused_key_cools_down_and_the_next_is_tried(api: ScriptedGemini, code: int, status: str) -> None:
    api.will_say(Reply([failure(code, status)], code))
    api.will_say([events("a")])
    api.will_say([events("b")])
    api.will_say([events("c")])
    gemini_api = upstream(api.address, "key-one", "key-two")
    assert [read(gemini_api.stream(request())) for _ in range(3)] == [[["a"]], [["b"]], [["c"]]]
    assert keys_used(api) == ["key-one", "key-two", "key-two", "key-two"]


def test_when_no_key_is_left_the_last_error_is_raised(api: ScriptedGemini) -> None:
    api.will_say(Reply([failure(403, "PERMISSION_DENIED")], 403))
    api.will_say(Reply([failure(429, "RESOURCE_EXHAUSTED", "Please retry in 34.5s.")], 429))
    with pytest.raises(errors.UpstreamRateLimited) as caught:
        read(upstream(api.address, "key-one", "key-two").stream(request()))
    assert caught.value.retry_after == 34.5
    assert keys_used(api) == ["key-one", "key-two"]


def test_a_cooldown_lasts_as_long_as_google_says(api: ScriptedGemini) -> None:
    api.will_say(Reply([failure(429, "RESOURCE_EXHAUSTED", "Please retry in 10ms.")], 429))
    api.will_say([events("a")])
    gemini_api = upstream(api.address, "key-one", "key-two")
    read(gemini_api.stream(request()))
    time.sleep(0.02)
    read(gemini_api.stream(request()))
    read(gemini_api.stream(request()))
    assert keys_used(api) == ["key-one", "key-two", "key-two", "key-one"]


def test_a_missing_key_is_a_misconfiguration() -> None:
    bare = GeminiUpstream(
        base_url=NOWHERE, keys=(), timeouts=Timeouts(1, 1, 1, 1), key_cooldown=1, pool_size=1
    )
    with pytest.raises(errors.UpstreamMisconfigured, match="no Gemini key"):
        read(bare.stream(request()))


# --- models ------------------------------------------------------------------------------------------


def model(name: str, *methods: str) -> dict[str, Any]:
    return {"name": f"models/{name}", "supportedGenerationMethods": list(methods)}


def test_models_that_can_generate_are_listed_from_all_pages(api: ScriptedGemini) -> None:
    one, two = model("one", "countTokens", "generateContent"), model("two", "generateContent")
    first = {"models": [one, model("embed", "embedContent")], "nextPageToken": "a/b&c"}
    api.will_list(first, {"models": [two, {"name": "bare"}, 7]})
    assert list(upstream(api.address).models()) == [one, two]
    assert [asked.path for asked in api.listings] == [
        f"{MODELS}?pageSize=1000",
        f"{MODELS}?pageSize=1000&pageToken=a%2Fb%26c",
    ]
    assert [asked.headers["x-goog-api-key"] for asked in api.listings] == [KEY, KEY]


def test_the_number_of_pages_is_bounded(api: ScriptedGemini) -> None:
    api.will_list({"models": [model("one", "generateContent")], "nextPageToken": "again"})
    assert len(upstream(api.address).models()) == rest.MOST_MODEL_PAGES


@pytest.mark.parametrize(
    "page", [{}, {"models": None}, {"models": 3}, {"models": [{"supportedGenerationMethods": 3}]}]
)
def test_a_malformed_model_page_counts_as_empty(api: ScriptedGemini, page: dict[str, Any]) -> None:
    api.will_list(page)
    assert list(upstream(api.address).models()) == []


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (200, b"<html>", errors.UpstreamMalformed),
        (200, b"[]", errors.UpstreamMalformed),
        (200, failure(503, "UNAVAILABLE"), errors.UpstreamOverloaded),
        (302, b"", errors.UpstreamMisconfigured),
        (404, b"not here", errors.UpstreamMisconfigured),
        (403, failure(403, "PERMISSION_DENIED"), errors.UpstreamMisconfigured),
        (500, b"", errors.UpstreamUnreachable),
    ],
)
def test_listing_models_raises_the_same_errors_as_streams(
    api: ScriptedGemini, code: int, body: bytes, expected: type[BridgeError]
) -> None:
    api.will_list(Reply([body], code))
    with pytest.raises(expected):
        upstream(api.address).models()


# --- library exceptions ------------------------------------------------------------------------------

FOREIGN = {
    errors.UpstreamUnreachable: {
        requests: "RequestException ConnectionError ProxyError HTTPError TooManyRedirects RetryError"
        " StreamConsumedError UnrewindableBodyError InvalidJSONError JSONDecodeError",
        urllib3: "HTTPError PoolError RequestError ProxyError MaxRetryError HostChangedError ResponseError"
        " NewConnectionError NameResolutionError EmptyPoolError FullPoolError ClosedPoolError"
        " TimeoutStateError BodyNotHttplibCompatible InvalidHeader HeaderParsingError UnrewindableBodyError",
    },
    errors.UpstreamTimeout: {
        requests: "Timeout ConnectTimeout ReadTimeout",
        urllib3: "TimeoutError ReadTimeoutError ConnectTimeoutError",
    },
    errors.UpstreamTruncated: {
        requests: "ChunkedEncodingError",
        urllib3: "ProtocolError IncompleteRead InvalidChunkLength ResponseNotChunked SSLError",
    },
    errors.UpstreamMalformed: {requests: "ContentDecodingError", urllib3: "DecodeError"},
    errors.UpstreamMisconfigured: {
        requests: "SSLError URLRequired MissingSchema InvalidSchema InvalidURL InvalidProxyURL InvalidHeader",
        urllib3: "LocationValueError LocationParseError URLSchemeUnknown ProxySchemeUnknown"
        " ProxySchemeUnsupported",
    },
}


def foreign_classes(library: Any) -> dict[str, type[Exception]]:
    of_this_process = f"{library.__name__}.exceptions"
    found = inspect.getmembers(library.exceptions, inspect.isclass)
    return {
        cls.__name__: cls
        for _, cls in found
        if cls.__module__ == of_this_process and issubclass(cls, Exception) and not issubclass(cls, Warning)
    }


@pytest.mark.parametrize("library", [requests, urllib3])
def test_every_exception_of_the_libraries_is_translated(library: Any) -> None:
    expected = {name: ours for ours, names in FOREIGN.items() for name in names[library].split()}
    found = {name: type(translate(cls.__new__(cls))) for name, cls in foreign_classes(library).items()}
    assert found == expected


def test_a_translated_error_keeps_its_cause_and_names_the_root() -> None:
    root = ConnectionRefusedError("111")
    with (
        pytest.raises(errors.UpstreamUnreachable, match=r"\(ConnectionRefusedError\)") as caught,
        foreign_errors_translated(),
    ):
        raise requests.ConnectionError(urllib3.exceptions.ProtocolError("aborted", root))
    assert isinstance(caught.value.__cause__, requests.ConnectionError)


def test_a_missing_ca_bundle_is_a_misconfiguration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/does/not/exist.pem")
    with pytest.raises(errors.UpstreamMisconfigured, match="SSL_CERT_FILE"):
        read(upstream("https://127.0.0.1:9").stream(request()))


@pytest.mark.parametrize(
    "address", ["nonsense", "ftp://127.0.0.1/", "https://", "http://[::1", "http://a b/"]
)
def test_an_invalid_address_is_a_misconfiguration(address: str) -> None:
    with pytest.raises(errors.UpstreamMisconfigured, match="address"):
        read(upstream(address).stream(request()))


# --- no key in any message ---------------------------------------------------------------------------

ODD_KEY = "relay-secret-0815"


def raised_by(act: Callable[[], object]) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        act()
    return caught.value


def traces_of(error: BridgeError) -> str:
    return "".join([str(error), repr(error), error.message, *traceback.format_exception(error)])


@pytest.mark.parametrize("key", [KEY, ODD_KEY])
@pytest.mark.parametrize("code", [302, 400, 401, 403, 404, 413, 429, 500, 503, 504])
def test_an_error_response_that_quotes_the_key_does_not_leak_it(
    api: ScriptedGemini, code: int, key: str
) -> None:
    api.will_say(Reply([failure(code, "INTERNAL", f"The key {key} at ?key={key} is bad")], code))
    assert key not in traces_of(raised_by(lambda: read(upstream(api.address, key).stream(request()))))


def test_a_stream_that_quotes_the_key_does_not_leak_it(api: ScriptedGemini) -> None:
    api.will_say([b"data: " + failure(400, "INVALID_ARGUMENT", f"?key={KEY} {KEY}") + b"\n\n"])
    assert KEY not in traces_of(raised_by(lambda: read(upstream(api.address).stream(request()))))


def test_the_repr_of_an_upstream_hides_its_keys() -> None:
    assert KEY not in repr(upstream())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["address", "name"])
def test_running_out_of_file_descriptors_is_not_an_upstream_error(host: str) -> None:
    """Without descriptors a host name cannot be resolved either, which is a different error."""
    address = (host, free_port())
    with no_free_file_descriptors():
        with pytest.raises(OSError) as failed:  # noqa: PT011
            socket.create_connection(address, timeout=5)
        assert isinstance(translate(requests.ConnectionError(failed.value)), errors.TooBusy)


def test_an_unresolvable_host_is_an_unreachable_upstream() -> None:
    with pytest.raises(errors.UpstreamUnreachable), foreign_errors_translated():
        requests.get("http://nobody.invalid/", timeout=5)
