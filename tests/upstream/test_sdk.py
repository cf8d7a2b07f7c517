"""Google's own package as an upstream: unsupported fields, timeouts, failures."""

from __future__ import annotations

import builtins
import gzip
import inspect
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
import requests
from gunicorn_bridge import ROOT
from scripted_gemini import CUT, Reply, sse, text_chunk
from upstream_rigs import CONFIG, JSON, KEYS, Rig, array, read
from waiting import eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import google.generativeai  # noqa: F401
from google.api_core import exceptions as api_errors

from bridge import errors
from bridge.errors import BridgeError
from bridge.gemini.types import (
    Chunk,
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateRequest,
    Part,
    Tool,
)
from bridge.settings import SettingsError, load
from bridge.upstream import make_upstream
from bridge.upstream.auth.credentials import Credential
from bridge.upstream.http_upstream import LARGEST_WHOLE_ANSWER
from bridge.upstream.sdk.package import translate
from bridge.upstream.sdk.reader import LONGEST_QUEUE, ReaderStream
from bridge.upstream.sdk.unsupported_fields import with_whole_numbers
from bridge.upstream.transport.http_response import Timeouts

SetUp = Callable[..., Rig]
#: A socket that is left to the garbage collector warns in whichever test runs then.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

GEMMA = "gemma-3-27b-it"  # a model that needs no signatures, which the package cannot carry
HELLO = Content("user", (Part("Hello"),))
NO_WAIT = Timeouts(connect=5, first_byte=5, between=5, whole=60, tick=0.05)


@pytest.fixture
def sdk(set_up: SetUp) -> Rig:
    return set_up("sdk")


def request(model: str = GEMMA, *contents: Content, **fields: Any) -> GenerateRequest:
    return GenerateRequest(model, contents or (HELLO,), **fields)


def texts(rig: Rig, asked: GenerateRequest | None = None) -> list[Any]:
    chunks = read(rig.upstream, asked or request())
    return [part.data for chunk in chunks for candidate in chunk.candidates for part in candidate.parts]


def raised_by(act: Callable[[], object]) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        act()
    return caught.value


def answering(*pieces: Any, status: int = 200) -> Reply:
    return Reply(pieces, status, JSON)


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "_read" in thread.name]


@pytest.fixture(autouse=True)
def _no_reader_stays_behind() -> Iterator[None]:
    yield
    assert eventually(lambda: not readers(), every=0.02)


# --- requests ----------------------------------------------------------------------------------------


def test_a_request_goes_out_as_the_package_sends_it(sdk: Rig) -> None:
    sdk.will_say(text_chunk("Hi.", "STOP"))
    asked = request(
        GEMMA,
        HELLO,
        Content("model", (Part(FunctionCall("look", {"n": 3, "deep": [{"x": 2.5}]}, "c1")),)),
        Content("user", (Part(FunctionResponse("look", {"output": "fine"}, "c1")),)),
        system=Content(None, (Part("Be brief."),)),
        tools=(Tool((FunctionDeclaration("look", "Look around."),)),),
        tool_config={"functionCallingConfig": {"mode": "AUTO"}},
        generation={"temperature": 0.5, "maxOutputTokens": 10, "stopSequences": ["."]},
        extra={"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]},
    )
    assert texts(sdk, asked) == ["Hi."]
    sent = sdk.api.asked[0]
    assert sent.path.partition("?")[0] == f"/v1beta/models/{GEMMA}:streamGenerateContent"
    assert sent.headers["x-goog-api-key"] == KEYS[0]
    assert sent.headers["accept-encoding"] == "identity"
    assert sent.headers["user-agent"].startswith("gemini-bridge/")
    assert KEYS[0] not in sent.path
    # The request is unchanged, except that enum names are sent as numbers.
    assert sent.body == {
        "contents": [
            {"role": "user", "parts": [{"text": "Hello"}]},
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"id": "c1", "name": "look", "args": {"n": 3.0, "deep": [{"x": 2.5}]}}}
                ],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": "c1", "name": "look", "response": {"output": "fine"}}}],
            },
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "look", "description": "Look around."}]}],
        "toolConfig": {"functionCallingConfig": {"mode": 1}},
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 10, "stopSequences": ["."]},
        "safetySettings": [{"category": 7, "threshold": 5}],
    }


@pytest.mark.parametrize(
    ("model", "segment"),
    [("../../v1/files", "..%2F..%2Fv1%2Ffiles"), ("x?key=1#", "x%3Fkey%3D1%23"), ("models/x", "x")],
)
def test_a_model_name_cannot_change_the_url(sdk: Rig, model: str, segment: str) -> None:
    sdk.will_say(text_chunk("Hi.", "STOP"))
    texts(sdk, request(model))
    assert sdk.api.asked[0].path.partition("?")[0] == f"/v1beta/models/{segment}:streamGenerateContent"


LOST = [
    (request(generation={"seed": 7}), "generationConfig.seed"),
    (request(generation={"thinkingConfig": {"thinkingBudget": 5}}), "generationConfig.thinkingConfig"),
    (
        request(tools=(Tool((FunctionDeclaration("f", schema={"type": "object"}),)),)),
        "tools[0].functionDeclarations[0].parametersJsonSchema",
    ),
    (
        request(GEMMA, HELLO, Content("model", (Part("Well."), Part("So.", signature="c2ln")))),
        "contents[1].parts[1].thoughtSignature",
    ),
    (
        request(GEMMA, HELLO, Content("model", (Part(FunctionCall("f", {"deep": [{"n": 2**53 + 1}]})),))),
        "contents[1].parts[0].functionCall.args.deep[0].n",
    ),
    (
        request(tool_config={"functionCallingConfig": {"mode": "VALIDATED"}}),
        "toolConfig.functionCallingConfig.mode",
    ),
    (
        request(generation={"responseSchema": {"type": "OBJECT", "properties": {"a": {"anyOf": []}}}}),
        "generationConfig.responseSchema.properties.a.anyOf",
    ),
    (request(extra={"serviceTier": "flex"}), "serviceTier"),
    (
        request("gemini-3.1-pro-preview", tools=(Tool((FunctionDeclaration("f"),)),)),
        "thoughtSignature",
    ),
]


@pytest.mark.parametrize(("asked", "field"), LOST, ids=[field for _, field in LOST])
def test_unsupported_fields_are_refused_by_name(sdk: Rig, asked: GenerateRequest, field: str) -> None:
    error = raised_by(lambda: sdk.upstream.stream(asked))
    assert type(error) is errors.InvalidRequest
    assert error.param == field
    assert field in error.message
    assert "upstream.sdk_losses" in error.message
    assert sdk.api.asked == []


@pytest.mark.parametrize(("asked", "field"), LOST, ids=[field for _, field in LOST])
def test_unsupported_fields_are_sent_over_rest_if_configured(
    set_up: SetUp, asked: GenerateRequest, field: str
) -> None:
    sdk = set_up("sdk", BRIDGE_UPSTREAM__SDK_LOSSES="rest")
    sdk.api.will_say(sse(text_chunk("Hi.", "STOP")))
    assert texts(sdk, asked) == ["Hi."]
    assert sdk.api.asked[0].path.endswith("?alt=sse")
    assert "sent over REST" in sdk.upstream.notices[0]


def test_only_the_first_few_lost_fields_are_named(sdk: Rig) -> None:
    signed = tuple(Part("So.", signature="c2ln") for _ in range(9))
    error = raised_by(lambda: sdk.upstream.stream(request(GEMMA, HELLO, Content("model", signed))))
    assert error.message.count("thoughtSignature") == 5
    assert "and more" in error.message


def test_token_counts_that_would_be_wrong_are_refused_or_sent_over_rest(set_up: SetUp) -> None:
    tools = (Tool((FunctionDeclaration("f", schema={"type": "object"}),)),)
    with pytest.raises(errors.InvalidRequest, match="parametersJsonSchema"):
        set_up("sdk").upstream.count_tokens(request(tools=tools))
    sdk = set_up("sdk", BRIDGE_UPSTREAM__SDK_LOSSES="rest")
    sdk.api.will_say(Reply([b'{"totalTokens": 4}']))
    assert sdk.upstream.count_tokens(request(tools=tools)) == 4


def test_unrequested_thoughts_do_not_cause_a_refusal(sdk: Rig) -> None:
    sdk.will_say(text_chunk("Hi.", "STOP"))
    asked = request(generation={"temperature": 0.5, "thinkingConfig": {"includeThoughts": True}})
    assert texts(sdk, asked) == ["Hi."]
    assert sdk.body["generationConfig"] == {"temperature": 0.5}


def test_a_malformed_request_is_a_client_error(sdk: Rig) -> None:
    for generation in ({"temperature": "warm"}, {"stopSequences": 3}, {"responseSchema": 4}):
        error = raised_by(lambda generation=generation: sdk.upstream.stream(request(generation=generation)))
        assert type(error) is errors.InvalidRequest
        assert "warm" not in error.message
    for extra in ({"generationConfig": 3}, {"generationConfig": {"thinkingConfig": 3}}):
        assert type(raised_by(lambda extra=extra: read(sdk.upstream, request(extra=extra)))) is (
            errors.InvalidRequest
        )


def test_unknown_unary_calls_are_refused(sdk: Rig) -> None:
    with pytest.raises(errors.UnknownModel, match="batchGenerate"):
        sdk.upstream.unary_call(GEMMA, "batchGenerate", {})


def test_several_embeddings_are_sent_in_one_call(sdk: Rig) -> None:
    sdk.api.will_say(answering(b'{"embeddings": [{"values": [0.5]}, {"values": [1.0]}]}'))
    each = {"model": f"models/{GEMMA}", "content": {"parts": [{"text": "Hello"}]}}
    said = sdk.upstream.unary_call(GEMMA, "batchEmbedContents", {"requests": [each, each]})
    assert said == {"embeddings": [{"values": [0.5]}, {"values": [1.0]}]}


def test_whole_numbers_are_returned_as_integers() -> None:
    floats = {"a": 3.0, "b": [2.5, {"c": -1.0}], "d": "3.0", "e": True, "f": None}
    whole = with_whole_numbers(floats)
    assert orjson.dumps(whole) == b'{"a":3,"b":[2.5,{"c":-1}],"d":"3.0","e":true,"f":null}'


# --- answers -----------------------------------------------------------------------------------------


def test_chunks_are_yielded_as_they_arrive(sdk: Rig) -> None:
    seen = threading.Event()

    def slowly() -> Iterator[bytes]:
        first, last, end = array([text_chunk("Hel"), text_chunk("lo – é日🎈.", "STOP")]).body
        yield first
        seen.wait(30)
        yield last
        yield end

    sdk.api.will_say(answering())
    sdk.api._replies[-1].body = slowly()
    batches = iter(sdk.upstream.stream(request()))
    first = next(batch for batch in batches if batch)
    seen.set()
    rest = [chunk for batch in batches for chunk in batch]
    assert first[0].candidates[0].parts[0].data == "Hel"
    assert rest[0].candidates[0].parts[0].data == "lo – é日🎈."


def test_an_answer_without_a_charset_is_utf8(sdk: Rig) -> None:
    sdk.api.will_say(Reply(array([text_chunk("é", "STOP")]).body))
    assert texts(sdk) == ["é"]


def test_silence_yields_empty_batches(sdk: Rig) -> None:
    first, last, end = array([text_chunk("a"), text_chunk("b", "STOP")]).body
    sdk.api.will_say(answering(0.4, first, 0.4, last, end))
    batches = list(sdk.upstream.stream(request()))
    assert [len(batch) for batch in batches if batch] == [1, 1]
    assert batches.count([]) >= 4


def test_permanent_silence_is_a_timeout(set_up: SetUp) -> None:
    sdk = set_up("sdk", BRIDGE_UPSTREAM__READ_TIMEOUT="0.3", BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT="0.3")
    first, *_ = array([text_chunk("a")]).body
    sdk.api.will_say(answering(first, 2.0), answering(2.0))
    seen: list[Any] = []
    with pytest.raises(errors.UpstreamTimeout):
        seen.extend(batch for batch in sdk.upstream.stream(request()) if batch)
    assert len(seen) == 1
    assert type(raised_by(lambda: read(sdk.upstream, request()))) is errors.UpstreamTimeout


def test_an_answer_has_a_time_limit(set_up: SetUp) -> None:
    sdk = set_up("sdk", BRIDGE_UPSTREAM__ANSWER_TIMEOUT="1")
    first, *_ = array([text_chunk("a")]).body
    sdk.api.will_say(answering(first, *([b",", 0.1, first[1:]] * 30)))
    assert "longer than the bridge allows" in raised_by(lambda: read(sdk.upstream, request())).message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([*array([text_chunk("a")]).body[:1], CUT], errors.UpstreamTruncated),
        ([*array([text_chunk("a")]).body[:1], b',{"candidates":'], errors.UpstreamTruncated),
        ([b"data: {}\n\n"], errors.UpstreamMalformed),
        ([b"<html>"], errors.UpstreamMalformed),
        ([b'[{"candidates": 5}]'], errors.UpstreamMalformed),
        ([b"[{nonsense}]"], errors.UpstreamMalformed),
    ],
)
def test_each_broken_answer_raises_its_own_error(
    sdk: Rig, body: list[Any], expected: type[BridgeError]
) -> None:
    sdk.api.will_say(answering(*body))
    error = raised_by(lambda: read(sdk.upstream, request()))
    assert type(error) is expected
    assert "nonsense" not in "".join(traceback.format_exception(error))


def refusal(code: int, status: str, message: str = "no", in_array: bool = True) -> Reply:
    said: Any = {"error": {"code": code, "status": status, "message": message}}
    return answering(orjson.dumps([said] if in_array else said), status=code)


@pytest.mark.parametrize("in_array", [True, False])
@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        (400, "INVALID_ARGUMENT", errors.UpstreamRefused),
        (404, "NOT_FOUND", errors.UnknownModel),
        (500, "INTERNAL", errors.UpstreamUnreachable),
        (503, "UNAVAILABLE", errors.UpstreamOverloaded),
        (504, "DEADLINE_EXCEEDED", errors.UpstreamTimeout),
    ],
)
def test_a_refusal_keeps_googles_message_and_is_not_retried(
    sdk: Rig, code: int, status: str, expected: type[BridgeError], in_array: bool
) -> None:
    sdk.api.will_say(refusal(code, status, f"Because. {KEYS[0]}", in_array))
    error = raised_by(lambda: read(sdk.upstream, request()))
    assert type(error) is expected
    assert "Because" in error.message
    assert KEYS[0] not in "".join(traceback.format_exception(error))
    assert len(sdk.api.asked) == 1


@pytest.mark.parametrize("code", [401, 403, 429])
def test_a_refused_key_cools_down_and_the_next_is_tried(sdk: Rig, code: int) -> None:
    sdk.api.will_say(refusal(code, {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}.get(code, "")))
    for _ in range(2):
        sdk.will_say(text_chunk("Hi.", "STOP"))
        assert texts(sdk) == ["Hi."]
    assert [asked.headers["x-goog-api-key"] for asked in sdk.api.asked] == [KEYS[0], KEYS[1], KEYS[1]]


def test_when_no_key_is_left_the_last_refusal_is_raised(sdk: Rig) -> None:
    sdk.api.will_say(refusal(403, "PERMISSION_DENIED"), refusal(429, "", "Please retry in 34.5s."))
    error = raised_by(lambda: read(sdk.upstream, request()))
    assert type(error) is errors.UpstreamRateLimited
    assert error.retry_after == 34.5


def test_a_redirect_is_not_followed(sdk: Rig) -> None:
    away = Reply((), 302, {"Location": f"{sdk.api.address}/elsewhere"})
    sdk.api.will_say(away, away)
    error = raised_by(lambda: read(sdk.upstream, request()))
    assert type(error) is errors.UpstreamMisconfigured
    assert not [asked for asked in sdk.api.asked if "elsewhere" in asked.path]


def test_an_error_with_a_truncated_body_is_mapped_by_its_status(sdk: Rig) -> None:
    sdk.api.will_say(answering(b'{"error"', CUT, status=503))
    assert type(raised_by(lambda: read(sdk.upstream, request()))) is errors.UpstreamOverloaded


def test_an_endless_error_body_is_not_read_to_the_end(sdk: Rig) -> None:
    left = threading.Event()

    def flood() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
        finally:
            left.set()

    sdk.api.will_say(Reply(flood(), 500, JSON))
    assert type(raised_by(lambda: read(sdk.upstream, request()))) is errors.UpstreamUnreachable
    assert left.wait(30)


def test_an_endless_message_is_not_read_to_the_end(set_up: SetUp) -> None:
    sdk, ends = set_up("sdk", BRIDGE_UPSTREAM__READ_TIMEOUT="60"), []

    def endless() -> Iterator[bytes]:
        yield orjson.dumps([text_chunk("Half ")])[:-1] + b',{"text":"'
        for _ in range(64):
            yield b"a" * 65_536
        ends.append(True)

    sdk.api.will_say(Reply(endless(), headers=JSON))
    assert isinstance(raised_by(lambda: texts(sdk)), errors.UpstreamMalformed)
    assert not ends


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_unary_call_limits_the_bytes_it_reads(sdk: Rig, encoding: str) -> None:
    body = b'{"totalTokens": 3, "remark": "' + b"a" * LARGEST_WHOLE_ANSWER + b'"}'
    packed = gzip.compress(body) if encoding == "gzip" else body
    sdk.api.will_say(Reply([packed], headers={**JSON, "Content-Encoding": encoding}))
    assert isinstance(raised_by(lambda: sdk.upstream.count_tokens(request())), errors.UpstreamMalformed)


def test_an_unrequested_compressed_answer_is_decoded(sdk: Rig) -> None:
    packed = gzip.compress(orjson.dumps([text_chunk("Done.", "STOP")]))
    sdk.api.will_say(Reply([packed], headers={**JSON, "Content-Encoding": "gzip"}))
    assert texts(sdk) == ["Done."]
    counted = Reply([gzip.compress(b'{"totalTokens": 3}')], headers={**JSON, "Content-Encoding": "gzip"})
    sdk.api.will_say(counted)
    assert sdk.upstream.count_tokens(request()) == 3


def test_a_missing_model_list_means_a_wrong_address(sdk: Rig) -> None:
    sdk.api.will_list(7)
    assert type(raised_by(sdk.upstream.models)) is errors.UpstreamMalformed


def test_only_models_that_can_generate_are_listed(sdk: Rig) -> None:
    able = {"name": "models/one", "supportedGenerationMethods": ["generateContent"], "inputTokenLimit": 5}
    first = {"models": [able, {"name": "models/embed"}], "nextPageToken": "more"}
    sdk.api.will_list(first, {"models": [{**able, "name": "models/two", "thinking": True}]})
    assert sdk.upstream.models() == [able, {**able, "name": "models/two"}]


# --- closing -----------------------------------------------------------------------------------------


def test_closing_aborts_the_call_before_the_response_starts(sdk: Rig) -> None:
    sdk.api.will_say(answering(60.0))
    stream = sdk.upstream.stream(request())
    batches = iter(stream)
    assert next(batches) == []
    stream.close()
    stream.close()
    assert list(batches) == []
    assert eventually(lambda: not readers(), 10, every=0.02)


def test_closing_before_the_first_read_sends_no_request(sdk: Rig) -> None:
    stream = sdk.upstream.stream(request())
    stream.close()
    assert list(stream) == []
    assert sdk.api.asked == []


def test_closing_one_answer_does_not_affect_the_next_on_the_connection(sdk: Rig) -> None:
    for _ in range(2):
        sdk.will_say(text_chunk("Hi.", "STOP"))
    one, two = sdk.upstream.stream(request()), sdk.upstream.stream(request())
    assert any(one)
    batches = iter(two)
    first = next(batches)
    one.close()
    assert first or any(batches)


def test_a_reader_does_not_run_ahead_of_a_slow_client() -> None:
    given: list[int] = []

    def chunks() -> Any:
        for number in range(1000):
            given.append(number)
            yield Chunk()

    stream = ReaderStream(chunks, NO_WAIT)
    batches = iter(stream)
    next(batches)
    time.sleep(0.2)
    assert len(given) <= 2 * LONGEST_QUEUE + 2
    stream.close()


def test_an_unexpected_exception_in_the_reader_is_raised() -> None:
    def chunks() -> Any:
        raise ZeroDivisionError
        yield

    with pytest.raises(ZeroDivisionError):
        list(ReaderStream(chunks, NO_WAIT))


# --- library exceptions ------------------------------------------------------------------------------

FOREIGN = {
    errors.UpstreamUnreachable: "GoogleAPIError RetryError GoogleAPICallError ServerError Unknown DataLoss"
    " InternalServerError MethodNotImplemented BadGateway Cancelled ClientError",
    errors.UpstreamMisconfigured: "DuplicateCredentialArgs AsyncRestUnsupportedParameterError Redirection"
    " MovedPermanently NotModified TemporaryRedirect ResumeIncomplete Unauthorized Unauthenticated"
    " Forbidden PermissionDenied MethodNotAllowed FailedPrecondition",
    errors.UpstreamRefused: "BadRequest InvalidArgument OutOfRange Conflict AlreadyExists Aborted"
    " LengthRequired PreconditionFailed RequestRangeNotSatisfiable",
    errors.UnknownModel: "NotFound",
    errors.UpstreamRateLimited: "TooManyRequests ResourceExhausted",
    errors.UpstreamOverloaded: "ServiceUnavailable",
    errors.UpstreamTimeout: "GatewayTimeout DeadlineExceeded",
}


def made(kind: Any) -> BaseException:
    error = kind("no", None) if kind is api_errors.RetryError else kind("no")
    assert isinstance(error, BaseException)
    return error


def test_every_exception_of_the_package_is_translated() -> None:
    of_this_process = [
        cls
        for _, cls in inspect.getmembers(api_errors, inspect.isclass)
        if cls.__module__ == api_errors.__name__ and issubclass(cls, BaseException)
    ]
    found = {cls.__name__: type(translate(made(cls), Credential({}, ""), "m")) for cls in of_this_process}
    expected = {name: ours for ours, names in FOREIGN.items() for name in names.split()}
    assert found == expected


def test_exceptions_of_requests_are_translated_too() -> None:
    for foreign, ours in {
        requests.ConnectionError(): errors.UpstreamUnreachable,
        requests.ReadTimeout(): errors.UpstreamTimeout,
        requests.exceptions.SSLError(): errors.UpstreamMisconfigured,
    }.items():
        assert type(translate(foreign, Credential({}, ""), "m")) is ours


# --- settings ----------------------------------------------------------------------------------------


def test_no_package_of_googles_is_imported_for_other_upstreams() -> None:
    code = (
        "import sys; from bridge.settings import load; from bridge.upstream import make_upstream;"
        "make_upstream(load(environ={})); make_upstream(load(environ={'GEMINI_API_KEY': 'x' * 20}));"
        "print([name for name in sys.modules if name.startswith(('google.', 'grpc'))])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_unsupported_features_are_logged_at_start(sdk: Rig) -> None:
    (notice,) = sdk.upstream.notices
    assert "thought signatures" in notice
    assert "JSON schema" in notice
    assert notice.endswith("are refused")


def complaint(**environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        make_upstream(load(CONFIG, {"BRIDGE_UPSTREAM__TRANSPORT": "sdk", **environ}))
    return str(caught.value)


def test_starting_without_a_key_is_reported() -> None:
    assert "GEMINI_API_KEY" in complaint()


def test_starting_without_the_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_google(name: str, *args: Any) -> Any:
        if name.startswith("google"):
            raise ModuleNotFoundError(f"No module named {name!r}", name="google.generativeai")
        return imported(name, *args)

    monkeypatch.delitem(sys.modules, "bridge.upstream.sdk.package", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_google)
    assert "pip install 'gemini-bridge[sdk]'" in complaint(GEMINI_API_KEY="key")
